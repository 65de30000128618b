// Opening a GGUF file: header, hyperparameters, and the check that every tensor is what the architecture asks for.
#pragma once

#include <gguf.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace farm {

// Hyperparameters of a llama-like decoder, under the names of the GGUF metadata. With experts, `n_ff` is the width of one
// of them, and each token uses `n_expert_used`.
struct HyperParameters {
    std::string architecture;
    int64_t n_layer = 0, n_embd = 0, n_ff = 0, n_head = 0, n_head_kv = 0, n_vocab = 0, n_ctx_train = 0;
    int64_t n_rot = 0, n_expert = 0, n_expert_used = 0;
    float rope_base = 10000.0f;
    float rms_eps = 1e-5f;

    int64_t head_dim() const { return n_embd / n_head; }
    int64_t n_embd_kv() const { return head_dim() * n_head_kv; }
};

// What a matrix may be kept in; norms and routers are float32.
constexpr ggml_type weight_types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_1, GGML_TYPE_Q4_0};

// An opened and checked model file. Reading is done with ordinary reads; mapping the weights is the model's business.
class ModelFile {
public:
    // Throws EngineError: model_file for what is missing, cut off or inconsistent, unsupported for what is valid and
    // not for this engine (another architecture, tokenizer or weight type).
    explicit ModelFile(const std::string & path);

    const std::string & path() const { return path_; }
    std::string name() const;
    int fd() const { return fileno(file_.get()); }
    uint64_t bytes() const { return bytes_; }
    uint64_t data_offset() const { return gguf_get_data_offset(gguf_.get()); }
    uint64_t n_params() const { return n_params_; }
    const std::string & weight_type() const { return weight_type_; }
    const HyperParameters & params() const { return params_; }
    const gguf_context * gguf() const { return gguf_.get(); }

    // Descriptions of all tensors (no data). The caller owns the weights' addresses, see Model.
    ggml_context * tensors() const { return meta_.get(); }

private:
    void read_params();
    void check_tensors();

    struct FileCloser {
        void operator()(FILE * f) const { std::fclose(f); }
    };
    struct GgufFree {
        void operator()(gguf_context * c) const { gguf_free(c); }
    };
    struct GgmlFree {
        void operator()(ggml_context * c) const { ggml_free(c); }
    };

    std::string path_;
    std::unique_ptr<FILE, FileCloser> file_;
    std::unique_ptr<gguf_context, GgufFree> gguf_;
    std::unique_ptr<ggml_context, GgmlFree> meta_;
    uint64_t bytes_ = 0;
    uint64_t n_params_ = 0;
    std::string weight_type_;
    HyperParameters params_;
};

}  // namespace farm
