// Keys and values of the positions seen so far. One kind exists: float32, contiguous, one sequence.
#pragma once

#include <ggml-backend.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "model_file.h"

namespace farm {

class KvCache {
public:
    // Room for `n_ctx` positions. Throws EngineError(out_of_memory).
    KvCache(const HyperParameters & params, int64_t n_ctx, ggml_backend_buffer_type_t where);
    ~KvCache();
    KvCache(const KvCache &) = delete;
    KvCache & operator=(const KvCache &) = delete;

    int64_t n_ctx() const { return n_ctx_; }
    uint64_t bytes() const;

    // All of these add nodes to the graph under construction in `ctx`; positions [n_past, n_past + n) are written.
    // `k` and `v`: [head_dim * n_head_kv, n] as computed for the new tokens.
    ggml_tensor * store_k(ggml_context * ctx, int64_t layer, ggml_tensor * k, int64_t n_past) const;
    ggml_tensor * store_v(ggml_context * ctx, int64_t layer, ggml_tensor * v, int64_t n_past) const;
    ggml_tensor * keys(ggml_context * ctx, int64_t layer, int64_t n_kv) const;    // [head_dim, n_kv, n_head_kv]
    ggml_tensor * values(ggml_context * ctx, int64_t layer, int64_t n_kv) const;  // [n_kv, head_dim, n_head_kv]

private:
    HyperParameters params_;
    int64_t n_ctx_;
    std::vector<uint8_t> memory_;  // descriptions of the tensors
    ggml_context * ctx_ = nullptr;
    ggml_backend_buffer_t buffer_ = nullptr;
    std::vector<ggml_tensor *> k_, v_;  // k: position-major; v: transposed, so that a head's values are rows
};

}  // namespace farm
