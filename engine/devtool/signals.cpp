// Where the kernel and the drivers of common chips show heat, clocks, caps, load, memory, power and the GPU's and NPU's
// work. Sources: Documentation/ABI/testing/sysfs-class-thermal, sysfs-devices-system-cpu, sysfs-class-power,
// sysfs-class-devfreq; Documentation/filesystems/proc.rst; the kgsl, Mali, ged and rknpu drivers for the busy nodes.
#include "signals.h"

#include <fcntl.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace farm::devtool {

namespace {

// A device with more zones or cooling devices than this shows its first ones; the host is told how many were left out.
constexpr size_t max_per_kind = 128;

struct Group {
    const char * kind;
    const char * pattern;   // of the files
    const char * name_from;  // file beside it that names it; "": the folder's name; nullptr: `name`
    const char * name;
    Take take;
    const char * key;
    const char * only;  // words of which the name must hold one, separated by '|'; nullptr: all
};

constexpr Group groups[] = {
    {"temp", "/sys/class/thermal/thermal_zone*/temp", "type", nullptr, Take::word, "", nullptr},
    {"cooling", "/sys/class/thermal/cooling_device*/cur_state", "type", nullptr, Take::word, "", nullptr},
    {"freq", "/sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq", "", nullptr, Take::word, "", nullptr},
    {"cap", "/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq", "", nullptr, Take::word, "", nullptr},
    {"load", "/proc/loadavg", nullptr, "1min", Take::word, "", nullptr},
    {"cpu", "/proc/stat", nullptr, "all", Take::line, "", nullptr},
    {"mem", "/proc/meminfo", nullptr, "MemAvailable", Take::field, "MemAvailable:", nullptr},
    {"mem", "/proc/meminfo", nullptr, "SwapFree", Take::field, "SwapFree:", nullptr},
    {"kills", "/proc/vmstat", nullptr, "oom_kill", Take::field, "oom_kill", nullptr},
    {"current", "/sys/class/power_supply/*/current_now", "", nullptr, Take::word, "", "bat"},
    {"voltage", "/sys/class/power_supply/*/voltage_now", "", nullptr, Take::word, "", "bat"},
    {"power", "/sys/class/power_supply/*/power_now", "", nullptr, Take::word, "", "bat"},
    {"level", "/sys/class/power_supply/*/capacity", "", nullptr, Take::word, "", "bat"},
    {"gpu", "/sys/class/kgsl/kgsl-3d0/gpu_busy_percentage", nullptr, "kgsl", Take::word, "", nullptr},
    {"gpu", "/sys/class/misc/mali0/device/utilization", nullptr, "mali", Take::word, "", nullptr},
    {"gpu", "/sys/kernel/ged/hal/gpu_utilization", nullptr, "ged", Take::word, "", nullptr},
    {"gpu", "/sys/kernel/gpu/gpu_busy", nullptr, "gpu", Take::word, "", nullptr},
    {"gpu", "/sys/class/devfreq/*/load", "", nullptr, Take::word, "", "gpu|mali|kgsl"},
    {"npu", "/sys/class/devfreq/*/load", "", nullptr, Take::word, "", "npu|apu|vpu"},
    {"npu", "/sys/kernel/debug/rknpu/load", nullptr, "rknpu", Take::line, "", nullptr},
    {"gpu_freq", "/sys/class/devfreq/*/cur_freq", "", nullptr, Take::word, "", "gpu|mali|kgsl"},
    {"npu_freq", "/sys/class/devfreq/*/cur_freq", "", nullptr, Take::word, "", "npu|apu|vpu"},
};

constexpr Group constants[] = {
    {"freq_max", "/sys/devices/system/cpu/cpufreq/policy*/cpuinfo_max_freq", "", nullptr, Take::word, "", nullptr},
    {"cooling_max", "/sys/class/thermal/cooling_device*/max_state", "type", nullptr, Take::word, "", nullptr},
    {"mem_total", "/proc/meminfo", nullptr, "MemTotal", Take::field, "MemTotal:", nullptr},
    {"swap_total", "/proc/meminfo", nullptr, "SwapTotal", Take::field, "SwapTotal:", nullptr},
};

std::vector<std::string> matches(const std::string & pattern) {
    glob_t found{};
    std::vector<std::string> paths;
    if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
        paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    }
    globfree(&found);
    // thermal_zone2 before thermal_zone10
    std::sort(paths.begin(), paths.end(), [](const std::string & a, const std::string & b) {
        return a.size() != b.size() ? a.size() < b.size() : a < b;
    });
    return paths;
}

// One word: what the stream's grammar allows of a stranger's text.
std::string plain(std::string text, size_t limit) {
    text.resize(std::min(text.find('\n'), std::min(text.size(), limit)));
    for (char & c : text) {
        const auto byte = static_cast<unsigned char>(c);
        c = byte <= ' ' || byte == 0x7f ? '_' : c;
    }
    return text;
}

std::string read_file(const std::string & path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return "";
    }
    std::string text = read_again(fd);
    close(fd);
    return text;
}

std::string name_of(const Group & group, const std::string & path) {
    if (group.name != nullptr) {
        return group.name;
    }
    const std::string folder = path.substr(0, path.rfind('/'));
    std::string name = *group.name_from ? plain(read_file(folder + "/" + group.name_from), 60) : "";
    return name.empty() ? plain(folder.substr(folder.rfind('/') + 1), 60) : name;
}

bool wanted(const Group & group, std::string name) {
    if (group.only == nullptr) {
        return true;
    }
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    std::string words = group.only;
    for (size_t begin = 0; begin <= words.size();) {
        const size_t end = std::min(words.find('|', begin), words.size());
        if (name.find(words.substr(begin, end - begin)) != std::string::npos) {
            return true;
        }
        begin = end + 1;
    }
    return false;
}

void add_group(const std::string & root, const Group & group, Inventory & found) {
    size_t taken = 0;
    std::string why;
    for (const std::string & path : matches(root + group.pattern)) {
        const std::string name = name_of(group, path);
        if (!wanted(group, name)) {
            continue;
        }
        Signal signal{group.kind, name, path, group.take, group.key};
        signal.fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (signal.fd < 0 || (value_of(signal, read_again(signal.fd)) == "-" && group.take == Take::field)) {
            why = signal.fd < 0 ? path + ": " + std::strerror(errno) : path + " has no " + group.key;
            close(signal.fd);
        } else if (taken++ < max_per_kind) {
            found.signals.push_back(signal);
        } else {
            close(signal.fd);
            why = "more than " + std::to_string(max_per_kind) + " of them";
        }
    }
    if (!why.empty()) {
        found.absent.push_back({group.kind, why});
    }
}

}  // namespace

std::string read_again(int fd) {
    char buffer[16 << 10];
    const ssize_t count = pread(fd, buffer, sizeof(buffer), 0);
    return count <= 0 ? "" : std::string(buffer, static_cast<size_t>(count));
}

std::string value_of(const Signal & signal, const std::string & text) {
    size_t begin = 0;
    size_t end = text.find('\n');
    end = std::min(end, text.size());
    if (signal.take == Take::field) {
        for (begin = 0; text.compare(begin, signal.key.size(), signal.key) != 0;) {
            begin = text.find('\n', begin);
            if (begin == std::string::npos) {
                return "-";
            }
            begin++;
        }
        begin += signal.key.size();
        end = std::min(text.find('\n', begin), text.size());
    }
    std::string out;
    std::string word;
    bool first = true;
    for (size_t i = begin; i <= end; i++) {
        const char c = i < end ? text[i] : ' ';
        if (c != ' ' && c != '\t') {
            word += c;
            continue;
        }
        if (word.empty()) {
            continue;
        }
        if (signal.take != Take::line) {
            return plain(word, 100);
        }
        if (!first) {
            out += (out.empty() ? "" : ",") + word;
        }
        first = false;
        word.clear();
    }
    return out.empty() ? "-" : plain(out, 200);
}

Inventory find_signals(const std::string & root) {
    Inventory found;
    for (const Group & group : groups) {
        add_group(root, group, found);
    }
    for (const Group & group : constants) {
        for (const std::string & path : matches(root + group.pattern)) {
            const Signal signal{group.kind, name_of(group, path), path, group.take, group.key};
            const std::string value = value_of(signal, read_file(path));
            if (value != "-") {
                found.facts.push_back({signal.kind, signal.name, value});
            }
        }
    }
    return found;
}

}  // namespace farm::devtool
