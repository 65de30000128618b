#include "model_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <map>

#include "errors.h"
#include "metadata.h"

namespace farm {

namespace {

constexpr int64_t max_dimension = 1 << 20;
constexpr int64_t max_experts = 512;  // as in llama.cpp
constexpr uint64_t weight_alignment = 32;  // what ggml's CPU buffers ask of an address

[[noreturn]] void bad_file(const std::string & path, const std::string & why) {
    throw EngineError(ExitCode::model_file, "model file " + path + ": " + why);
}

// ggml reports a broken header through its log; the first line is the reason, the later ones only repeat where.
std::string g_first_log_line;

void keep_first_line(ggml_log_level, const char * text, void *) {
    if (g_first_log_line.empty()) {
        g_first_log_line = text;
        while (!g_first_log_line.empty() && g_first_log_line.back() == '\n') {
            g_first_log_line.pop_back();
        }
    }
}

using TensorShape = std::array<int64_t, 3>;  // columns, rows, experts

std::string shape_text(const int64_t * ne) {
    std::string text = std::to_string(ne[0]) + "x" + std::to_string(ne[1]);
    return ne[2] == 1 ? text : text + "x" + std::to_string(ne[2]);
}

// Every tensor that the architecture asks for, beside the embedding and the output matrix.
std::map<std::string, TensorShape> layer_tensors(const HyperParameters & p) {
    std::map<std::string, TensorShape> wanted;
    const std::string kind = p.n_expert > 0 ? "_exps.weight" : ".weight";
    const int64_t copies = p.n_expert > 0 ? p.n_expert : 1;
    for (int64_t i = 0; i < p.n_layer; i++) {
        const std::string b = "blk." + std::to_string(i) + ".";
        wanted[b + "attn_norm.weight"] = wanted[b + "ffn_norm.weight"] = {p.n_embd, 1, 1};
        wanted[b + "attn_q.weight"] = wanted[b + "attn_output.weight"] = {p.n_embd, p.n_embd, 1};
        wanted[b + "attn_k.weight"] = wanted[b + "attn_v.weight"] = {p.n_embd, p.n_embd_kv(), 1};
        wanted[b + "ffn_gate" + kind] = wanted[b + "ffn_up" + kind] = {p.n_embd, p.n_ff, copies};
        wanted[b + "ffn_down" + kind] = {p.n_ff, p.n_embd, copies};
        if (p.n_expert > 0) {
            wanted[b + "ffn_gate_inp.weight"] = {p.n_embd, p.n_expert, 1};
        }
    }
    return wanted;
}

bool has_weight_type(ggml_type type) {
    return std::any_of(std::begin(weight_types), std::end(weight_types), [&](ggml_type t) { return t == type; });
}

}  // namespace

ModelFile::ModelFile(const std::string & path) : path_(path), file_(std::fopen(path.c_str(), "rbe")) {
    if (!file_) {
        bad_file(path, std::strerror(errno));
    }
    struct stat info {};
    if (fstat(fileno(file_.get()), &info) != 0 || !S_ISREG(info.st_mode)) {
        bad_file(path, "is not a regular file");
    }
    bytes_ = static_cast<uint64_t>(info.st_size);
    g_first_log_line.clear();
    ggml_log_set(keep_first_line, nullptr);
    ggml_context * meta = nullptr;
    gguf_.reset(gguf_init_from_file_ptr(file_.get(), {/*no_alloc=*/true, &meta}));
    meta_.reset(meta);
    ggml_log_set(nullptr, nullptr);
    if (!gguf_ || !meta_) {
        bad_file(path, g_first_log_line.empty() ? "is not a readable GGUF file" : g_first_log_line);
    }
    if (gguf_get_alignment(gguf_.get()) % weight_alignment != 0 || data_offset() % weight_alignment != 0) {
        throw EngineError(ExitCode::unsupported, "tensor data aligned to less than 32 bytes is not supported");
    }
    read_params();
    check_tensors();
}

std::string ModelFile::name() const {
    const size_t slash = path_.rfind('/');
    return slash == std::string::npos ? path_ : path_.substr(slash + 1);
}

void ModelFile::read_params() {
    const gguf_context * g = gguf_.get();
    HyperParameters & p = params_;
    p.architecture = find_string(g, "general.architecture").value_or("");
    if (p.architecture != "llama") {
        throw EngineError(ExitCode::unsupported, "architecture '" + p.architecture + "' is not supported (only llama)");
    }
    p.n_layer = need_int(g, "llama.block_count", 1, 1024);
    p.n_embd = need_int(g, "llama.embedding_length", 1, max_dimension);
    p.n_ff = need_int(g, "llama.feed_forward_length", 1, max_dimension);
    p.n_ctx_train = need_int(g, "llama.context_length", 1, INT32_MAX);
    p.n_head = need_int(g, "llama.attention.head_count", 1, p.n_embd);
    p.n_head_kv = find_int(g, "llama.attention.head_count_kv").value_or(p.n_head);
    if (p.n_embd % p.n_head != 0 || p.n_head_kv < 1 || p.n_head_kv > p.n_head || p.n_head % p.n_head_kv != 0) {
        bad_file(path_, "head counts do not divide the embedding length");
    }
    p.n_rot = find_int(g, "llama.rope.dimension_count").value_or(p.head_dim());
    if (p.n_rot != p.head_dim() || p.n_rot % 2 != 0) {
        throw EngineError(ExitCode::unsupported, "rotary dimensions other than an even head size are not supported");
    }
    p.rope_base = static_cast<float>(find_float(g, "llama.rope.freq_base").value_or(10000.0));
    p.rms_eps = static_cast<float>(find_float(g, "llama.attention.layer_norm_rms_epsilon").value_or(1e-5));
    if (!(p.rope_base > 1.0f && std::isfinite(p.rope_base)) || !(p.rms_eps > 0.0f && p.rms_eps < 1.0f)) {
        bad_file(path_, "rope base or norm epsilon is out of range");
    }
    p.n_expert = find_int(g, "llama.expert_count").value_or(0);
    if (p.n_expert != 0) {
        p.n_expert = need_int(g, "llama.expert_count", 1, max_experts);
        p.n_expert_used = need_int(g, "llama.expert_used_count", 1, p.n_expert);
    }
    for (const char * key : {"llama.expert_shared_count", "llama.attention.key_length", "llama.attention.value_length"}) {
        const int64_t plain = std::strcmp(key, "llama.expert_shared_count") == 0 ? 0 : p.head_dim();
        if (find_int(g, key).value_or(plain) != plain) {
            throw EngineError(ExitCode::unsupported, std::string("'") + key + "' is not supported with this value");
        }
    }
    if (find_string(g, "llama.rope.scaling.type").value_or("none") != "none") {
        throw EngineError(ExitCode::unsupported, "rope scaling is not supported");
    }
}

void ModelFile::check_tensors() {
    const HyperParameters & p = params_;
    const ggml_tensor * embd = ggml_get_tensor(meta_.get(), "token_embd.weight");
    if (embd == nullptr) {
        bad_file(path_, "tensor token_embd.weight is missing");
    }
    params_.n_vocab = embd->ne[1];
    std::map<std::string, TensorShape> wanted = layer_tensors(p);
    wanted["token_embd.weight"] = {p.n_embd, p.n_vocab, 1};
    wanted["output_norm.weight"] = {p.n_embd, 1, 1};
    if (ggml_get_tensor(meta_.get(), "output.weight") != nullptr) {
        wanted["output.weight"] = {p.n_embd, p.n_vocab, 1};
    }
    std::map<ggml_type, uint64_t> bytes_by_type;
    for (const auto & [name, shape] : wanted) {
        const ggml_tensor * t = ggml_get_tensor(meta_.get(), name.c_str());
        if (t == nullptr) {
            bad_file(path_, "tensor " + name + " is missing");
        }
        if (!std::equal(shape.begin(), shape.end(), t->ne) || t->ne[3] != 1) {
            bad_file(path_, "tensor " + name + " is " + shape_text(t->ne) + ", expected " + shape_text(shape.data()));
        }
        const bool exact = name.find("norm") != std::string::npos || name.find("gate_inp") != std::string::npos;
        if (t->type != GGML_TYPE_F32 && (exact || !has_weight_type(t->type))) {
            throw EngineError(ExitCode::unsupported,
                              "tensor " + name + " has type " + ggml_type_name(t->type) +
                                  (exact ? " (norms and routers must be f32)" : " (only f32, f16, q8_0, q4_1 and q4_0)"));
        }
        const int64_t id = gguf_find_tensor(gguf_.get(), name.c_str());
        const uint64_t end = data_offset() + gguf_get_tensor_offset(gguf_.get(), id);
        if (end > bytes_ || ggml_nbytes(t) > bytes_ - end) {
            bad_file(path_, "is cut off: tensor " + name + " ends behind the end of the file");
        }
        n_params_ += static_cast<uint64_t>(ggml_nelements(t));
        bytes_by_type[t->type] += ggml_nbytes(t);
    }
    if (ggml_get_tensor(meta_.get(), "rope_freqs.weight") != nullptr) {
        throw EngineError(ExitCode::unsupported, "rope frequency factors are not supported");
    }
    // The type that holds most bytes names the model, as people speak of it: a q4_0 model keeps its norms in f32.
    uint64_t most = 0;
    for (const auto & [type, bytes] : bytes_by_type) {
        if (bytes > most) {
            most = bytes;
            weight_type_ = ggml_type_name(type);
        }
    }
}

}  // namespace farm
