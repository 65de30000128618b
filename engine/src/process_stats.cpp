#include "process_stats.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace farm {

namespace {

// Bytes that these very functions have read: reading /proc/self/io must not count as the engine's reading.
int64_t g_own_reads = 0;

std::string read_small_file(const char * path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return "";
    }
    std::string text(16384, '\0');
    const ssize_t n = read(fd, text.data(), text.size());
    close(fd);
    text.resize(n > 0 ? static_cast<size_t>(n) : 0);
    g_own_reads += static_cast<int64_t>(text.size());
    return text;
}

std::optional<int64_t> number_after(const std::string & text, const char * label) {
    const size_t at = text.find(label);
    if (at == std::string::npos || (at != 0 && text[at - 1] != '\n')) {
        return std::nullopt;
    }
    return std::strtoll(text.c_str() + at + std::strlen(label), nullptr, 10);
}

}  // namespace

MemoryUse memory_use() {
    const std::string status = read_small_file("/proc/self/status");
    const std::string rollup = read_small_file("/proc/self/smaps_rollup");
    return {number_after(status, "VmRSS:"), number_after(status, "VmHWM:"), number_after(rollup, "Pss:")};
}

IoCounters io_counters() {
    IoCounters counters;
    const int64_t own = g_own_reads;
    const std::optional<int64_t> all = number_after(read_small_file("/proc/self/io"), "rchar:");
    counters.bytes_read = all ? std::optional(*all - own) : std::nullopt;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    counters.minor_faults = usage.ru_minflt;
    counters.major_faults = usage.ru_majflt;
    return counters;
}

}  // namespace farm
