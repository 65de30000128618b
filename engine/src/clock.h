// Times of the engine: microseconds on CLOCK_MONOTONIC, and CPU time of the whole process.
#pragma once

#include <cstdint>
#include <ctime>

namespace farm {

inline int64_t clock_us(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);  // async-signal-safe
    return static_cast<int64_t>(now.tv_sec) * 1000000 + now.tv_nsec / 1000;
}

inline int64_t monotonic_us() { return clock_us(CLOCK_MONOTONIC); }

// Does not advance while a CPU quota keeps the process waiting.
inline int64_t process_cpu_us() { return clock_us(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace farm
