#include "tokenizer.h"

#include <cstdio>

#include "errors.h"
#include "metadata.h"

namespace farm {

namespace {

constexpr int32_t token_type_byte = 6;  // LLAMA_TOKEN_TYPE_BYTE of the GGUF format

// splitmix64: a made-up prompt has to be the same with every compiler and C++ library.
uint64_t next_random(uint64_t & state) {
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

int32_t special_token(const gguf_context * gguf, const char * key, int64_t n_vocab) {
    const int64_t id = find_int(gguf, key).value_or(-1);
    if (id >= n_vocab) {
        throw EngineError(ExitCode::model_file, std::string("model metadata '") + key + "' is outside the vocabulary");
    }
    return id < 0 ? -1 : static_cast<int32_t>(id);
}

}  // namespace

Tokenizer::Tokenizer(const gguf_context * gguf, int64_t n_vocab) {
    const int64_t tokens = need_array(gguf, "tokenizer.ggml.tokens", GGUF_TYPE_STRING);
    const int64_t types = need_array(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32);
    const int64_t n = static_cast<int64_t>(gguf_get_arr_n(gguf, tokens));
    if (n != n_vocab || gguf_get_arr_n(gguf, types) != static_cast<size_t>(n)) {
        throw EngineError(ExitCode::model_file, "the vocabulary has " + std::to_string(n) + " tokens, the embedding " +
                                                    std::to_string(n_vocab));
    }
    const int32_t * type_of = static_cast<const int32_t *>(gguf_get_arr_data(gguf, types));
    id_of_byte_.fill(-1);
    bytes_of_id_.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; i++) {
        unsigned value = 0;
        if (type_of[i] == token_type_byte &&
            std::sscanf(gguf_get_arr_str(gguf, tokens, static_cast<size_t>(i)), "<0x%2X>", &value) == 1) {
            id_of_byte_[value & 0xFF] = static_cast<int32_t>(i);
            bytes_of_id_[static_cast<size_t>(i)] = std::string(1, static_cast<char>(value));
        }
    }
    for (const int32_t id : id_of_byte_) {
        if (id < 0) {
            throw EngineError(ExitCode::unsupported, "the tokenizer is not supported (only byte vocabularies)");
        }
    }
    eos_ = special_token(gguf, "tokenizer.ggml.eos_token_id", n_vocab);
    bos_ = special_token(gguf, "tokenizer.ggml.bos_token_id", n_vocab);
    const int64_t add = gguf_find_key(gguf, "tokenizer.ggml.add_bos_token");
    if (add >= 0 && gguf_get_kv_type(gguf, add) == GGUF_TYPE_BOOL && !gguf_get_val_bool(gguf, add)) {
        bos_ = -1;
    }
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
    std::vector<int32_t> ids;
    if (bos_ >= 0) {
        ids.push_back(bos_);
    }
    for (const char c : text) {
        ids.push_back(id_of_byte_[static_cast<unsigned char>(c)]);
    }
    return ids;
}

std::vector<int32_t> Tokenizer::made_up(int64_t n, uint64_t seed) const {
    std::vector<int32_t> ids = encode("");
    while (static_cast<int64_t>(ids.size()) < n) {
        ids.push_back(id_of_byte_[32 + next_random(seed) % 95]);
    }
    ids.resize(static_cast<size_t>(n));
    return ids;
}

std::string_view Tokenizer::bytes(int32_t id) const {
    const size_t index = static_cast<size_t>(id);
    return id >= 0 && index < bytes_of_id_.size() ? std::string_view(bytes_of_id_[index]) : std::string_view();
}

}  // namespace farm
