#include "backend.h"

#include <ggml-cpu.h>

#include "cpu_features.h"
#include "errors.h"

namespace farm {

namespace {

bool computes_nothing(ggml_op op) {
    return op == GGML_OP_NONE || op == GGML_OP_RESHAPE || op == GGML_OP_VIEW || op == GGML_OP_PERMUTE ||
           op == GGML_OP_TRANSPOSE;
}

bool tick_between_nodes(void * events) {
    static_cast<Events *>(events)->tick();
    return false;  // never abort
}

}  // namespace

void check_cpu() {
#if defined(__x86_64__)
    // The CPU kernels alone are built for AVX2 and its company; this file is not, so that it can say so.
    if (!cpu_has_avx2_fma_bmi2()) {
        throw EngineError(ExitCode::unsupported,
                          "this build needs a CPU with AVX2, FMA, F16C and BMI2 (x86-64-v3), which this one lacks");
    }
#endif
}

std::vector<std::string> cpu_kernel_features() {
    const std::pair<const char *, int (*)()> all[] = {
        {"SSE3", ggml_cpu_has_sse3}, {"AVX", ggml_cpu_has_avx},       {"AVX2", ggml_cpu_has_avx2},
        {"FMA", ggml_cpu_has_fma},   {"F16C", ggml_cpu_has_f16c},     {"BMI2", ggml_cpu_has_bmi2},
        {"NEON", ggml_cpu_has_neon}, {"AVX512", ggml_cpu_has_avx512}, {"DOTPROD", ggml_cpu_has_dotprod},
    };
    std::vector<std::string> found;
    for (const auto & [name, has] : all) {
        if (has()) {
            found.emplace_back(name);
        }
    }
    return found;
}

CpuBackend::CpuBackend(int n_threads, Events & events) : backend_(ggml_backend_cpu_init()) {
    if (backend_ == nullptr) {
        throw EngineError(ExitCode::out_of_memory, "cannot start the CPU backend");
    }
    ggml_threadpool_params params = ggml_threadpool_params_default(n_threads);
    params.poll = 0;  // waiting threads sleep: spinning would eat the CPU quota that the work needs
    pool_ = ggml_threadpool_new(&params);
    if (pool_ == nullptr) {
        throw EngineError(ExitCode::out_of_memory, "cannot start " + std::to_string(n_threads) + " threads");
    }
    ggml_backend_cpu_set_n_threads(backend_, n_threads);
    ggml_backend_cpu_set_threadpool(backend_, pool_);
    ggml_backend_cpu_set_abort_callback(backend_, tick_between_nodes, &events);
    allocator_ = ggml_gallocr_new(buffer_type());
}

CpuBackend::~CpuBackend() {
    ggml_gallocr_free(allocator_);
    ggml_backend_free(backend_);
    ggml_threadpool_free(pool_);
}

void CpuBackend::reserve(const DecoderGraph & graph) {
    if (!ggml_gallocr_reserve(allocator_, graph.graph)) {
        throw EngineError(ExitCode::out_of_memory, "cannot allocate memory to compute in");
    }
}

void CpuBackend::place(const DecoderGraph & graph) {
    if (!ggml_gallocr_alloc_graph(allocator_, graph.graph)) {
        throw EngineError(ExitCode::out_of_memory, "cannot allocate memory to compute in");
    }
}

void CpuBackend::run(const DecoderGraph & graph) {
    const ggml_status status = ggml_backend_graph_compute(backend_, graph.graph);
    if (status != GGML_STATUS_SUCCESS) {
        throw EngineError(status == GGML_STATUS_ALLOC_FAILED ? ExitCode::out_of_memory : ExitCode::internal,
                          std::string("computing failed: ") + ggml_status_to_string(status));
    }
    for (int i = 0; i < ggml_graph_n_nodes(graph.graph); i++) {
        const ggml_tensor * node = ggml_graph_node(graph.graph, i);
        op_counts_[node->op] += computes_nothing(node->op) ? 0 : 1;
        op_names_[node->op] = ggml_op_desc(node);
    }
}

std::string CpuBackend::take_op_counts() {
    JsonObject counts;
    for (size_t op = 0; op < op_counts_.size(); op++) {
        if (op_counts_[op] > 0) {
            counts.add(op_names_[op], op_counts_[op]);
            op_counts_[op] = 0;
        }
    }
    return counts.str();
}

}  // namespace farm
