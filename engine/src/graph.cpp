#include "graph.h"

#include <cmath>
#include <limits>

namespace farm {

GraphBuilder::GraphBuilder(const HyperParameters & params, const Weights & weights, const KvCache & cache)
    : params_(params), weights_(weights), cache_(cache) {
    max_nodes_ = static_cast<size_t>(params.n_layer) * static_cast<size_t>(64 + 2 * params.n_expert_used) + 64;
    memory_.resize(ggml_tensor_overhead() * max_nodes_ + ggml_graph_overhead_custom(max_nodes_, false));
}

GraphBuilder::~GraphBuilder() { ggml_free(ctx_); }  // null is fine

ggml_tensor * GraphBuilder::norm(ggml_context * ctx, ggml_tensor * x, ggml_tensor * weight) const {
    return ggml_mul(ctx, ggml_rms_norm(ctx, x, params_.rms_eps), weight);
}

ggml_tensor * GraphBuilder::attention(ggml_context * ctx, const DecoderGraph & g, int64_t layer, ggml_tensor * x,
                                      int64_t n_past) const {
    const HyperParameters & p = params_;
    const LayerWeights & w = weights_.layers[static_cast<size_t>(layer)];
    const int64_t n = x->ne[1];
    const int64_t n_kv = n_past + n;
    const auto rotate = [&](ggml_tensor * t, int64_t heads) {
        t = ggml_reshape_3d(ctx, t, p.head_dim(), heads, n);
        return ggml_rope_ext(ctx, t, g.positions, nullptr, static_cast<int>(p.n_rot), GGML_ROPE_TYPE_NORMAL, 0,
                             p.rope_base, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f);
    };
    ggml_tensor * q = rotate(ggml_mul_mat(ctx, w.attn_q, x), p.n_head);
    ggml_tensor * k = rotate(ggml_mul_mat(ctx, w.attn_k, x), p.n_head_kv);
    ggml_tensor * v = ggml_mul_mat(ctx, w.attn_v, x);

    // The cache is written before it is read: the graph runs its nodes in the order in which they were added.
    ggml_build_forward_expand(g.graph, cache_.store_k(ctx, layer, k, n_past));
    ggml_build_forward_expand(g.graph, cache_.store_v(ctx, layer, v, n_past));

    q = ggml_permute(ctx, q, 0, 2, 1, 3);
    ggml_tensor * scores = ggml_mul_mat(ctx, cache_.keys(ctx, layer, n_kv), q);
    const float scale = 1.0f / std::sqrt(static_cast<float>(p.head_dim()));
    scores = ggml_soft_max_ext(ctx, scores, g.mask, scale, 0.0f);
    ggml_tensor * mixed = ggml_mul_mat(ctx, cache_.values(ctx, layer, n_kv), scores);
    mixed = ggml_cont_2d(ctx, ggml_permute(ctx, mixed, 0, 2, 1, 3), p.n_embd, n);
    return ggml_mul_mat(ctx, w.attn_output, mixed);
}

ggml_tensor * GraphBuilder::experts(ggml_context * ctx, DecoderGraph & g, const LayerWeights & w,
                                    ggml_tensor * x) const {
    const int64_t used = params_.n_expert_used, n = x->ne[1];
    ggml_tensor * scores = ggml_mul_mat(ctx, w.ffn_router, x);  // [n_expert, n]; chosen: [used, n], a view
    // Sorting has no order among values that are no numbers and a C++ library may leave its array for them: the order is
    // that of clamped scores, in which there are none. The scores themselves go on as they are, to show in the logits.
    constexpr float most = std::numeric_limits<float>::max();
    ggml_tensor * chosen = ggml_argsort_top_k(ctx, ggml_clamp(ctx, scores, -most, most), static_cast<int>(used));
    g.routes.push_back(chosen->view_src);
    ggml_set_output(chosen->view_src);  // read after the graph has run: its memory must not be used again before
    scores = ggml_get_rows(ctx, ggml_reshape_3d(ctx, scores, 1, params_.n_expert, n), chosen);  // [1, used, n]
    ggml_tensor * shares = ggml_soft_max(ctx, ggml_reshape_2d(ctx, scores, used, n));

    x = ggml_reshape_3d(ctx, x, params_.n_embd, 1, n);
    ggml_tensor * gate = ggml_mul_mat_id(ctx, w.ffn_gate, x, chosen);  // [n_ff, used, n]
    ggml_tensor * up = ggml_mul_mat_id(ctx, w.ffn_up, x, chosen);
    ggml_tensor * out = ggml_mul_mat_id(ctx, w.ffn_down, ggml_swiglu_split(ctx, gate, up), chosen);
    out = ggml_mul(ctx, out, ggml_reshape_3d(ctx, shares, 1, used, n));  // [n_embd, used, n]
    ggml_tensor * sum = nullptr;
    for (int64_t i = 0; i < used; i++) {
        ggml_tensor * one = ggml_view_2d(ctx, out, params_.n_embd, n, out->nb[2], static_cast<size_t>(i) * out->nb[1]);
        sum = sum == nullptr ? one : ggml_add(ctx, sum, one);
    }
    return used == 1 ? ggml_cont(ctx, sum) : sum;
}

ggml_tensor * GraphBuilder::feed_forward(ggml_context * ctx, DecoderGraph & g, int64_t layer, ggml_tensor * x) const {
    const LayerWeights & w = weights_.layers[static_cast<size_t>(layer)];
    if (w.ffn_router != nullptr) {
        return experts(ctx, g, w, x);
    }
    ggml_tensor * gate = ggml_mul_mat(ctx, w.ffn_gate, x);
    ggml_tensor * up = ggml_mul_mat(ctx, w.ffn_up, x);
    return ggml_mul_mat(ctx, w.ffn_down, ggml_swiglu_split(ctx, gate, up));
}

DecoderGraph GraphBuilder::build(int64_t n_tokens, int64_t n_past) {
    // The context lives in our own memory: ggml never has to allocate for it, which it does not survive failing at.
    ggml_free(ctx_);
    ctx_ = ggml_init({memory_.size(), memory_.data(), /*no_alloc=*/true});
    DecoderGraph g{};
    g.graph = ggml_new_graph_custom(ctx_, max_nodes_, false);
    const auto input = [](ggml_tensor * t) {
        ggml_set_input(t);
        return t;
    };
    g.tokens = input(ggml_new_tensor_1d(ctx_, GGML_TYPE_I32, n_tokens));
    g.positions = input(ggml_new_tensor_1d(ctx_, GGML_TYPE_I32, n_tokens));
    if (n_tokens > 1) {
        g.mask = input(ggml_new_tensor_2d(ctx_, GGML_TYPE_F32, n_past + n_tokens, n_tokens));
    }
    ggml_tensor * x = ggml_get_rows(ctx_, weights_.token_embd, g.tokens);
    for (int64_t i = 0; i < params_.n_layer; i++) {
        const LayerWeights & w = weights_.layers[static_cast<size_t>(i)];
        x = ggml_add(ctx_, x, attention(ctx_, g, i, norm(ctx_, x, w.attn_norm), n_past));
        x = ggml_add(ctx_, x, feed_forward(ctx_, g, i, norm(ctx_, x, w.ffn_norm)));
    }
    x = ggml_view_2d(ctx_, x, x->ne[0], 1, x->nb[1], static_cast<size_t>(n_tokens - 1) * x->nb[1]);
    g.logits = ggml_mul_mat(ctx_, weights_.output, norm(ctx_, x, weights_.output_norm));
    ggml_set_output(g.logits);
    ggml_build_forward_expand(g.graph, g.logits);
    return g;
}

}  // namespace farm
