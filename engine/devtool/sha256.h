// SHA-256 (FIPS 180-4), with the CPU's own instructions where it has them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace farm::devtool {

class Sha256 {
public:
    Sha256();
    void update(const void * data, size_t size);
    std::string hex();  // finishes; the object is not to be used afterwards

    // "sha-ni" or "portable": which code does the work. FARM_DEVTOOL_PORTABLE=1 in the environment forces the latter.
    static const char * implementation();

private:
    std::array<uint32_t, 8> state_;
    std::array<uint8_t, 64> pending_{};
    size_t n_pending_ = 0;
    uint64_t total_ = 0;
};

}  // namespace farm::devtool
