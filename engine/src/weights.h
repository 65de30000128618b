// The weights in memory. One load mode exists: the file mapped, pages brought in as they are touched.
#pragma once

#include <ggml-backend.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "model_file.h"

namespace farm {

struct LayerWeights {
    ggml_tensor *attn_norm, *attn_q, *attn_k, *attn_v, *attn_output, *ffn_norm;
    ggml_tensor * ffn_router;                      // [n_embd, n_expert]; null when there are no experts
    ggml_tensor *ffn_gate, *ffn_up, *ffn_down;  // those of all experts, one behind the other along the third dimension
};

class Weights {
public:
    // Maps the file and points its tensors into the mapping. The file must outlive the weights.
    // Throws EngineError(out_of_memory) when the kernel refuses the mapping.
    explicit Weights(const ModelFile & file);
    ~Weights();
    Weights(const Weights &) = delete;
    Weights & operator=(const Weights &) = delete;

    ggml_tensor * token_embd = nullptr;
    ggml_tensor * output_norm = nullptr;
    ggml_tensor * output = nullptr;  // the embedding itself when the model has no own output matrix
    std::vector<LayerWeights> layers;

    uint64_t mapped_bytes() const { return mapped_bytes_; }
    uint64_t weight_bytes() const { return weight_bytes_; }
    bool owns(const ggml_tensor * tensor) const { return tensor->buffer == buffer_; }

private:
    void * base_ = nullptr;
    uint64_t mapped_bytes_ = 0;
    uint64_t weight_bytes_ = 0;
    ggml_backend_buffer_t buffer_ = nullptr;
};

}  // namespace farm
