#include "decoder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "errors.h"

namespace farm {

Decoder::Decoder(const ModelFile & file, const Weights & weights, int n_threads, int64_t n_ctx, int64_t n_batch,
                 Events & events)
    : weights_(weights), backend_(n_threads, events), cache_(file.params(), n_ctx, backend_.buffer_type()),
      builder_(file.params(), weights_, cache_), n_expert_(file.params().n_expert),
      n_expert_used_(file.params().n_expert_used) {
    const int64_t n = std::min(n_batch, n_ctx);
    backend_.reserve(builder_.build(n, n_ctx - n));
    logits_.resize(static_cast<size_t>(file.params().n_vocab));
}

void Decoder::fill_inputs() {
    ggml_backend_tensor_set(graph_.tokens, tokens_.data(), 0, tokens_.size() * sizeof(int32_t));
    ggml_backend_tensor_set(graph_.positions, positions_.data(), 0, positions_.size() * sizeof(int32_t));
    if (graph_.mask != nullptr) {
        ggml_backend_tensor_set(graph_.mask, mask_.data(), 0, mask_.size() * sizeof(float));
    }
}

void Decoder::evaluate(const int32_t * tokens, int64_t n, int64_t n_past) {
    tokens_.assign(tokens, tokens + n);
    positions_.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; i++) {
        positions_[static_cast<size_t>(i)] = static_cast<int32_t>(n_past + i);
    }
    mask_.assign(static_cast<size_t>(n * (n_past + n)), 0.0f);
    for (int64_t row = 0; row < n; row++) {
        const auto begin = mask_.begin() + row * (n_past + n);
        std::fill(begin + n_past + row + 1, begin + n_past + n, -INFINITY);
    }
    graph_ = builder_.build(n, n_past);
    backend_.place(graph_);
    evaluate_again();
    ggml_backend_tensor_get(graph_.logits, logits_.data(), 0, logits_.size() * sizeof(float));
    for (const float value : logits_) {
        if (!std::isfinite(value)) {
            throw EngineError(ExitCode::not_finite, "a logit is not a finite number at position " +
                                                        std::to_string(n_past + n - 1) + ": the weights are broken");
        }
    }
}

void Decoder::evaluate_again() {
    fill_inputs();
    backend_.run(graph_);
    count_routes();
    weight_bytes_touched_ += weight_bytes_of(graph_);
}

int32_t Decoder::most_likely() const {
    return static_cast<int32_t>(std::max_element(logits_.begin(), logits_.end()) - logits_.begin());
}

uint64_t Decoder::weight_bytes_of(const DecoderGraph & graph) const {
    uint64_t bytes = 0;
    for (int i = 0; i < ggml_graph_n_nodes(graph.graph); i++) {
        const ggml_tensor * node = ggml_graph_node(graph.graph, i);
        for (const ggml_tensor * source : node->src) {
            if (source != nullptr && weights_.owns(source)) {
                bytes += bytes_read_of(node, source);
            }
        }
    }
    return bytes;
}

uint64_t Decoder::bytes_read_of(const ggml_tensor * node, const ggml_tensor * weights) const {
    if (node->op == GGML_OP_GET_ROWS) {
        return static_cast<uint64_t>(node->ne[1]) * weights->nb[1];
    }
    if (node->op == GGML_OP_MUL_MAT_ID) {
        const auto route = std::find(graph_.routes.begin(), graph_.routes.end(), node->src[2]->view_src);
        return experts_met_[static_cast<size_t>(route - graph_.routes.begin())] * weights->nb[2];
    }
    return ggml_nbytes(weights);
}

void Decoder::count_routes() {
    expert_counts_.resize(graph_.routes.size(), std::vector<uint64_t>(static_cast<size_t>(n_expert_)));
    experts_met_.assign(graph_.routes.size(), 0);
    for (size_t layer = 0; layer < graph_.routes.size(); layer++) {
        const ggml_tensor * route = graph_.routes[layer];
        std::vector<int32_t> order(static_cast<size_t>(ggml_nelements(route)));
        ggml_backend_tensor_get(route, order.data(), 0, order.size() * sizeof(int32_t));
        std::vector<bool> met(static_cast<size_t>(n_expert_));
        for (int64_t token = 0; token < route->ne[1]; token++) {
            for (int64_t i = 0; i < n_expert_used_; i++) {
                const size_t expert = static_cast<size_t>(order[static_cast<size_t>(token * n_expert_ + i)]);
                expert_counts_[layer][expert]++;
                met[expert] = true;
            }
        }
        experts_met_[layer] = static_cast<uint64_t>(std::count(met.begin(), met.end(), true));
    }
}

std::vector<std::vector<uint64_t>> Decoder::take_expert_counts() { return std::exchange(expert_counts_, {}); }

uint64_t Decoder::take_weight_bytes_touched() {
    const uint64_t bytes = weight_bytes_touched_;
    weight_bytes_touched_ = 0;
    return bytes;
}

}  // namespace farm
