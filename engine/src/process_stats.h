// What the kernel says about this process. Anything that cannot be read is absent.
#pragma once

#include <cstdint>
#include <optional>

namespace farm {

struct MemoryUse {
    std::optional<int64_t> rss_kb, hwm_kb, pss_kb;
};

struct IoCounters {
    std::optional<int64_t> bytes_read;  // through read(2) and its kin; pages of a mapped file are not in it
    int64_t minor_faults = 0, major_faults = 0;
};

MemoryUse memory_use();
IoCounters io_counters();

}  // namespace farm
