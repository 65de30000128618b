// What the CPU can do, asked of the CPU itself. Compilers' own helpers are not used: not every runtime library that
// this is linked with fills in their tables.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace farm {

#if defined(__x86_64__)

struct CpuidLeaf {
    unsigned a = 0, b = 0, c = 0, d = 0;
    explicit CpuidLeaf(unsigned leaf) { __get_cpuid_count(leaf, 0, &a, &b, &c, &d); }
};

inline bool has_bits(unsigned value, unsigned bits) { return (value & bits) == bits; }

// AVX2 with its company, in the CPU and switched on by the kernel (Intel SDM volume 1, section 14.3).
inline bool cpu_has_avx2_fma_bmi2() {
    const CpuidLeaf one(1), seven(7);
    const unsigned fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;
    const unsigned avx2 = 1u << 5, bmi2 = 1u << 8;
    if (!has_bits(one.c, fma | osxsave | avx | f16c) || !has_bits(seven.b, avx2 | bmi2)) {
        return false;
    }
    uint32_t low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return has_bits(low, 6);  // the kernel saves XMM and YMM registers
}

inline bool cpu_has_sha() { return has_bits(CpuidLeaf(7).b, 1u << 29) && has_bits(CpuidLeaf(1).c, 1u << 19); }

#endif

}  // namespace farm
