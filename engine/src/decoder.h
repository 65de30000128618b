// A loaded model that evaluates tokens: weights, cache, graph and backend put together.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend.h"
#include "graph.h"
#include "kv_cache.h"
#include "weights.h"

namespace farm {

class Decoder {
public:
    // Allocates everything that evaluation needs, so that running out of memory shows while loading.
    Decoder(const ModelFile & file, const Weights & weights, int n_threads, int64_t n_ctx, int64_t n_batch,
            Events & events);

    // Evaluates `n` tokens behind the `n_past` that were evaluated before; logits() then holds those of the last one.
    // Throws EngineError: not_finite when the arithmetic broke down.
    void evaluate(const int32_t * tokens, int64_t n, int64_t n_past);

    // The same work once more, same result.
    void evaluate_again();

    const std::vector<float> & logits() const { return logits_; }
    int32_t most_likely() const;  // the lowest id among equals

    // Bytes of weights that the evaluations since the last call had to read, by the graphs that ran: of experts, those
    // of the ones that some token was sent to.
    uint64_t take_weight_bytes_touched();

    // [layer][expert]: tokens sent there since the last call. Empty when the model has no experts.
    std::vector<std::vector<uint64_t>> take_expert_counts();

    CpuBackend & backend() { return backend_; }
    const KvCache & cache() const { return cache_; }

private:
    void fill_inputs();
    void count_routes();
    uint64_t weight_bytes_of(const DecoderGraph & graph) const;
    uint64_t bytes_read_of(const ggml_tensor * node, const ggml_tensor * weights) const;

    const Weights & weights_;
    CpuBackend backend_;
    KvCache cache_;
    GraphBuilder builder_;
    DecoderGraph graph_{};
    std::vector<int32_t> tokens_, positions_;
    std::vector<float> mask_, logits_;
    uint64_t weight_bytes_touched_ = 0;
    int64_t n_expert_, n_expert_used_;
    std::vector<std::vector<uint64_t>> expert_counts_;
    std::vector<uint64_t> experts_met_;  // per layer, in the last evaluation: how many different ones
};

}  // namespace farm
