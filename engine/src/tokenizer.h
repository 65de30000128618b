// The byte vocabulary of a GGUF file: one token per byte value, beside the special tokens.
#pragma once

#include <gguf.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace farm {

class Tokenizer {
public:
    // Reads `tokenizer.ggml.*`. Throws EngineError: unsupported when a byte value has no token of its own (any other
    // kind of vocabulary), model_file when the metadata contradicts itself.
    Tokenizer(const gguf_context * gguf, int64_t n_vocab);

    // Begin-of-sequence (when the model asks for it), then one token per byte.
    std::vector<int32_t> encode(std::string_view text) const;

    // Exactly `n` tokens, made up from `seed`: begin-of-sequence (when the model asks for it), then printable bytes.
    std::vector<int32_t> made_up(int64_t n, uint64_t seed) const;

    // The bytes that a token stands for; empty for special tokens and for ids outside the vocabulary.
    std::string_view bytes(int32_t id) const;

    bool is_eos(int32_t id) const { return id == eos_; }

private:
    std::array<int32_t, 256> id_of_byte_{};
    std::vector<std::string> bytes_of_id_;
    int32_t bos_ = -1, eos_ = -1;
};

}  // namespace farm
