#include "sha256.h"

#include <cstdlib>
#include <cstring>

#include "cpu_features.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace farm::devtool {

namespace {

// FIPS 180-4, section 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes.
alignas(16) const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t rotate(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

void blocks_portable(uint32_t * state, const uint8_t * data, size_t n) {
    for (; n > 0; n--, data += 64) {
        uint32_t w[64];
        for (int i = 0; i < 16; i++) {
            uint32_t word;
            std::memcpy(&word, data + 4 * i, 4);
            w[i] = __builtin_bswap32(word);
        }
        for (int i = 16; i < 64; i++) {
            const uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ (w[i - 15] >> 3);
            const uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ (w[i - 2] >> 10);
            w[i] = w[i - 16] + s0 + w[i - 7] + s1;
        }
        uint32_t v[8];
        std::memcpy(v, state, sizeof(v));
        for (int i = 0; i < 64; i++) {
            const uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
            const uint32_t choose = (v[4] & v[5]) ^ (~v[4] & v[6]);
            const uint32_t t1 = v[7] + s1 + choose + round_constants[i] + w[i];
            const uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
            const uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
            std::memmove(v + 1, v, 7 * sizeof(uint32_t));
            v[4] += t1;
            v[0] = t1 + s0 + majority;
        }
        for (int i = 0; i < 8; i++) {
            state[i] += v[i];
        }
    }
}

#if defined(__x86_64__)

// The SHA extensions keep the state as two vectors, (f e b a) and (h g d c) from low to high, and do two rounds per
// instruction; sha256msg1/msg2 make four words of the message schedule out of the sixteen before.
__attribute__((target("sha,sse4.1,ssse3"))) void blocks_sha_ni(uint32_t * state, const uint8_t * data, size_t n) {
    const __m128i byte_order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128(reinterpret_cast<__m128i *>(state)), 0xB1);
    const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(reinterpret_cast<__m128i *>(state + 4)), 0x1B);
    __m128i abef = _mm_alignr_epi8(abcd, efgh, 8);
    __m128i cdgh = _mm_blend_epi16(efgh, abcd, 0xF0);
    for (; n > 0; n--, data += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
        for (int i = 0; i < 4; i++) {
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i *>(data) + i), byte_order);
        }
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            const __m128i k = _mm_load_si128(reinterpret_cast<const __m128i *>(round_constants) + i);
            const __m128i wk = _mm_add_epi32(w[i % 4], k);
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, wk);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(wk, 0x0E));
            // w[i % 4] is used up: its place takes the four words that come 16 later.
            const __m128i last = w[(i + 3) % 4];
            const __m128i middle = _mm_alignr_epi8(last, w[(i + 2) % 4], 4);
            const __m128i partial = _mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]), middle);
            w[i % 4] = _mm_sha256msg2_epu32(partial, last);
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    const __m128i feba = _mm_shuffle_epi32(abef, 0x1B);
    const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xB1);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(state), _mm_blend_epi16(feba, dchg, 0xF0));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

#endif

using Blocks = void (*)(uint32_t *, const uint8_t *, size_t);

Blocks choose() {
    const char * portable = std::getenv("FARM_DEVTOOL_PORTABLE");
#if defined(__x86_64__)
    if (cpu_has_sha() && (portable == nullptr || std::strcmp(portable, "1") != 0)) {
        return blocks_sha_ni;
    }
#else
    static_cast<void>(portable);
#endif
    return blocks_portable;
}

const Blocks g_blocks = choose();

}  // namespace

const char * Sha256::implementation() { return g_blocks == blocks_portable ? "portable" : "sha-ni"; }

// FIPS 180-4, section 5.3.3.
Sha256::Sha256()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {}

void Sha256::update(const void * data, size_t size) {
    const auto * bytes = static_cast<const uint8_t *>(data);
    total_ += size;
    if (n_pending_ > 0) {
        const size_t take = size < 64 - n_pending_ ? size : 64 - n_pending_;
        std::memcpy(pending_.data() + n_pending_, bytes, take);
        n_pending_ += take;
        bytes += take;
        size -= take;
        if (n_pending_ < 64) {
            return;
        }
        g_blocks(state_.data(), pending_.data(), 1);
        n_pending_ = 0;
    }
    g_blocks(state_.data(), bytes, size / 64);
    n_pending_ = size % 64;
    if (n_pending_ > 0) {
        std::memcpy(pending_.data(), bytes + size - n_pending_, n_pending_);
    }
}

std::string Sha256::hex() {
    const uint64_t bits = total_ * 8;
    const uint8_t padding[64] = {0x80};
    update(padding, 1 + (119 - n_pending_) % 64);
    uint8_t length[8];
    for (int i = 0; i < 8; i++) {
        length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
    }
    update(length, 8);
    std::string text;
    for (const uint32_t word : state_) {
        for (int shift = 28; shift >= 0; shift -= 4) {
            text += "0123456789abcdef"[(word >> shift) & 15];
        }
    }
    return text;
}

}  // namespace farm::devtool
