// The decoder as a ggml graph: RMS norm, rotary attention with grouped heads over the KV cache, SwiGLU; with experts, that
// of the best few per token, weighted by the softmax over those.
#pragma once

#include <ggml.h>

#include <cstdint>
#include <vector>

#include "kv_cache.h"
#include "weights.h"

namespace farm {

// One evaluation: `n_tokens` new tokens behind `n_past` known ones. Valid until the builder builds again.
struct DecoderGraph {
    ggml_cgraph * graph;
    ggml_tensor * tokens;     // int32 [n_tokens], to be filled
    ggml_tensor * positions;  // int32 [n_tokens], to be filled
    ggml_tensor * mask;       // float32 [n_past + n_tokens, n_tokens], 0 or -inf, to be filled; null for one token
    ggml_tensor * logits;     // float32 [n_vocab], of the last token
    std::vector<ggml_tensor *> routes;  // per layer, with experts: int32 [n_expert, n_tokens], the best expert first
};

class GraphBuilder {
public:
    GraphBuilder(const HyperParameters & params, const Weights & weights, const KvCache & cache);
    ~GraphBuilder();
    GraphBuilder(const GraphBuilder &) = delete;
    GraphBuilder & operator=(const GraphBuilder &) = delete;
    DecoderGraph build(int64_t n_tokens, int64_t n_past);

private:
    ggml_tensor * norm(ggml_context * ctx, ggml_tensor * x, ggml_tensor * weight) const;
    ggml_tensor * attention(ggml_context * ctx, const DecoderGraph & g, int64_t layer, ggml_tensor * x,
                            int64_t n_past) const;
    ggml_tensor * feed_forward(ggml_context * ctx, DecoderGraph & g, int64_t layer, ggml_tensor * x) const;
    ggml_tensor * experts(ggml_context * ctx, DecoderGraph & g, const LayerWeights & w, ggml_tensor * x) const;

    const HyperParameters & params_;
    const Weights & weights_;
    const KvCache & cache_;
    size_t max_nodes_;
    std::vector<uint8_t> memory_;  // of tensor descriptions, reused by each build
    ggml_context * ctx_ = nullptr;
};

}  // namespace farm
