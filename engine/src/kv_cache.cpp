#include "kv_cache.h"

#include <ggml-alloc.h>

#include <string>

#include "errors.h"

namespace farm {

KvCache::KvCache(const HyperParameters & params, int64_t n_ctx, ggml_backend_buffer_type_t where)
    : params_(params), n_ctx_(n_ctx) {
    memory_.resize(ggml_tensor_overhead() * static_cast<size_t>(2 * params.n_layer + 1));
    ctx_ = ggml_init({memory_.size(), memory_.data(), /*no_alloc=*/true});
    for (int64_t i = 0; i < params.n_layer; i++) {
        k_.push_back(ggml_new_tensor_1d(ctx_, GGML_TYPE_F32, params.n_embd_kv() * n_ctx));
        v_.push_back(ggml_new_tensor_1d(ctx_, GGML_TYPE_F32, params.n_embd_kv() * n_ctx));
    }
    buffer_ = ggml_backend_alloc_ctx_tensors_from_buft(ctx_, where);
    if (buffer_ == nullptr) {
        ggml_free(ctx_);
        throw EngineError(ExitCode::out_of_memory, "cannot allocate the KV cache of " + std::to_string(n_ctx) +
                                                       " positions; a smaller --ctx needs less");
    }
    ggml_backend_buffer_clear(buffer_, 0);
}

KvCache::~KvCache() {
    ggml_backend_buffer_free(buffer_);
    ggml_free(ctx_);
}

uint64_t KvCache::bytes() const { return ggml_backend_buffer_get_size(buffer_); }

ggml_tensor * KvCache::store_k(ggml_context * ctx, int64_t layer, ggml_tensor * k, int64_t n_past) const {
    ggml_tensor * cache = k_[static_cast<size_t>(layer)];
    const size_t offset = static_cast<size_t>(params_.n_embd_kv() * n_past) * sizeof(float);
    return ggml_cpy(ctx, k, ggml_view_1d(ctx, cache, ggml_nelements(k), offset));
}

ggml_tensor * KvCache::store_v(ggml_context * ctx, int64_t layer, ggml_tensor * v, int64_t n_past) const {
    ggml_tensor * cache = v_[static_cast<size_t>(layer)];
    const size_t row = static_cast<size_t>(n_ctx_) * sizeof(float);
    ggml_tensor * place = ggml_view_2d(ctx, cache, v->ne[1], params_.n_embd_kv(), row,
                                       static_cast<size_t>(n_past) * sizeof(float));
    return ggml_cpy(ctx, ggml_transpose(ctx, v), place);
}

ggml_tensor * KvCache::keys(ggml_context * ctx, int64_t layer, int64_t n_kv) const {
    const size_t head = static_cast<size_t>(params_.head_dim()) * sizeof(float);
    const size_t position = static_cast<size_t>(params_.n_embd_kv()) * sizeof(float);
    return ggml_view_3d(ctx, k_[static_cast<size_t>(layer)], params_.head_dim(), n_kv, params_.n_head_kv, position,
                        head, 0);
}

ggml_tensor * KvCache::values(ggml_context * ctx, int64_t layer, int64_t n_kv) const {
    const size_t row = static_cast<size_t>(n_ctx_) * sizeof(float);
    return ggml_view_3d(ctx, v_[static_cast<size_t>(layer)], n_kv, params_.head_dim(), params_.n_head_kv, row,
                        row * static_cast<size_t>(params_.head_dim()), 0);
}

}  // namespace farm
