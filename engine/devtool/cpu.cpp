// `probe cpu`: what the CPU and the kernel say about themselves, asked of the hardware and not of a text file.
#include <sched.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "commands.h"
#include "json.h"
#include "sha256.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace farm::devtool {

namespace {

#if defined(__x86_64__)

constexpr const char * abi = "x86_64";

struct FeatureBit {
    const char * name;
    unsigned leaf;
    char reg;
    int bit;
};

// Intel SDM volume 2A, CPUID leaves 1 and 7.
const FeatureBit feature_bits[] = {
    {"sse3", 1, 'c', 0},      {"ssse3", 1, 'c', 9},       {"fma", 1, 'c', 12},          {"sse4_1", 1, 'c', 19},
    {"sse4_2", 1, 'c', 20},   {"popcnt", 1, 'c', 23},     {"aes", 1, 'c', 25},          {"avx", 1, 'c', 28},
    {"f16c", 1, 'c', 29},     {"bmi1", 7, 'b', 3},        {"avx2", 7, 'b', 5},          {"bmi2", 7, 'b', 8},
    {"avx512f", 7, 'b', 16},  {"avx512dq", 7, 'b', 17},   {"sha_ni", 7, 'b', 29},       {"avx512bw", 7, 'b', 30},
    {"avx512vl", 7, 'b', 31}, {"avx512_vbmi", 7, 'c', 1}, {"avx512_vnni", 7, 'c', 11},  {"amx_bf16", 7, 'd', 22},
    {"amx_tile", 7, 'd', 24}, {"amx_int8", 7, 'd', 25},
};

std::vector<std::string> features() {
    std::vector<std::string> found;
    for (const FeatureBit & feature : feature_bits) {
        unsigned a = 0, b = 0, c = 0, d = 0;
        if (__get_cpuid_count(feature.leaf, 0, &a, &b, &c, &d)) {
            const unsigned value = feature.reg == 'b' ? b : feature.reg == 'c' ? c : d;
            if (value & (1u << feature.bit)) {
                found.emplace_back(feature.name);
            }
        }
    }
    return found;
}

void add_model(JsonObject & line) {
    unsigned words[12] = {};
    for (unsigned i = 0; i < 3; i++) {
        unsigned * w = words + 4 * i;
        __get_cpuid(0x80000002 + i, w, w + 1, w + 2, w + 3);
    }
    char brand[sizeof(words) + 1] = "";
    std::memcpy(brand, words, sizeof(words));
    const std::string text(brand);
    text.empty() ? line.add_null("model") : line.add("model", text.substr(0, text.find_last_not_of(' ') + 1));
}

#elif defined(__aarch64__)

constexpr const char * abi = "arm64-v8a";

// Linux, Documentation/arch/arm64/elf_hwcaps.rst.
const struct {
    const char * name;
    unsigned long type;
    int bit;
} feature_bits[] = {{"asimd", AT_HWCAP, 1},    {"aes", AT_HWCAP, 3},     {"sha2", AT_HWCAP, 6},  {"crc32", AT_HWCAP, 7},
                    {"atomics", AT_HWCAP, 8},  {"fphp", AT_HWCAP, 9},    {"asimdhp", AT_HWCAP, 10},
                    {"asimddp", AT_HWCAP, 20}, {"sve", AT_HWCAP, 22},    {"sve2", AT_HWCAP2, 1}, {"i8mm", AT_HWCAP2, 13},
                    {"bf16", AT_HWCAP2, 14},   {"sme", AT_HWCAP2, 23}};

std::vector<std::string> features() {
    std::vector<std::string> found;
    for (const auto & feature : feature_bits) {
        if (getauxval(feature.type) & (1ul << feature.bit)) {
            found.emplace_back(feature.name);
        }
    }
    return found;
}

void add_model(JsonObject & line) { line.add_null("model"); }

#endif

// CPUs that this process may run on; a container or cpuset may allow fewer than are online.
void add_allowed(JsonObject & line) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        line.add("cores_allowed", static_cast<int64_t>(CPU_COUNT(&set)));
    } else {
        line.add_null("cores_allowed");
    }
}

}  // namespace

int probe_cpu(const Arguments & arguments) {
    if (!arguments.empty()) {
        return usage_error("probe cpu takes no arguments");
    }
    utsname name{};
    uname(&name);
    JsonObject line;
    line.add("probe", "cpu").add("abi", abi).add("machine", name.machine).add("kernel", name.release);
    add_model(line);
    line.add("features", features());
    line.add("cores_configured", static_cast<int64_t>(sysconf(_SC_NPROCESSORS_CONF)));
    line.add("cores_online", static_cast<int64_t>(sysconf(_SC_NPROCESSORS_ONLN)));
    add_allowed(line);
    line.add("page_size", static_cast<int64_t>(getauxval(AT_PAGESZ)));
    line.add("hash_implementation", Sha256::implementation());
    std::printf("%s\n", line.str().c_str());
    return exit_ok;
}

}  // namespace farm::devtool
