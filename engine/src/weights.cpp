#include "weights.h"

#include <ggml-alloc.h>
#include <ggml-cpu.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "errors.h"

namespace farm {

Weights::Weights(const ModelFile & file) : mapped_bytes_(file.bytes()) {
    base_ = mmap(nullptr, mapped_bytes_, PROT_READ, MAP_SHARED, file.fd(), 0);
    if (base_ == MAP_FAILED) {
        throw EngineError(ExitCode::out_of_memory, "cannot map " + std::to_string(mapped_bytes_) + " bytes of " +
                                                       file.path() + ": " + std::strerror(errno));
    }
    char * data = static_cast<char *>(base_) + file.data_offset();
    buffer_ = ggml_backend_cpu_buffer_from_ptr(data, mapped_bytes_ - file.data_offset());
    ggml_backend_buffer_set_usage(buffer_, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);

    const auto place = [&](const std::string & name) {
        ggml_tensor * tensor = ggml_get_tensor(file.tensors(), name.c_str());
        if (tensor != nullptr) {
            const int64_t id = gguf_find_tensor(file.gguf(), name.c_str());
            ggml_backend_tensor_alloc(buffer_, tensor, data + gguf_get_tensor_offset(file.gguf(), id));
            weight_bytes_ += ggml_nbytes(tensor);
        }
        return tensor;
    };
    token_embd = place("token_embd.weight");
    output_norm = place("output_norm.weight");
    output = place("output.weight");
    output = output ? output : token_embd;
    const std::string kind = file.params().n_expert > 0 ? "_exps.weight" : ".weight";
    for (int64_t i = 0; i < file.params().n_layer; i++) {
        const std::string b = "blk." + std::to_string(i) + ".";
        layers.push_back({place(b + "attn_norm.weight"), place(b + "attn_q.weight"), place(b + "attn_k.weight"),
                          place(b + "attn_v.weight"), place(b + "attn_output.weight"), place(b + "ffn_norm.weight"),
                          place(b + "ffn_gate_inp.weight"), place(b + "ffn_gate" + kind), place(b + "ffn_up" + kind),
                          place(b + "ffn_down" + kind)});
    }
}

Weights::~Weights() {
    ggml_backend_buffer_free(buffer_);
    munmap(base_, mapped_bytes_);
}

}  // namespace farm
