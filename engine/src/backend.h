// Where graphs run. One backend exists: the CPU, with a thread pool of its own.
#pragma once

#include <ggml-alloc.h>
#include <ggml-backend.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "events.h"
#include "graph.h"

namespace farm {

// Refuses a CPU that lacks instructions which this build uses. Throws EngineError(unsupported).
void check_cpu();

// The instruction set extensions that the CPU kernels were built with, as ggml names them.
std::vector<std::string> cpu_kernel_features();

class CpuBackend {
public:
    // `events` is ticked from inside long computations. Throws EngineError(out_of_memory).
    CpuBackend(int n_threads, Events & events);
    ~CpuBackend();
    CpuBackend(const CpuBackend &) = delete;
    CpuBackend & operator=(const CpuBackend &) = delete;

    const char * name() const { return ggml_backend_name(backend_); }
    ggml_backend_buffer_type_t buffer_type() const { return ggml_backend_get_default_buffer_type(backend_); }
    uint64_t compute_bytes() const { return ggml_gallocr_get_buffer_size(allocator_, 0); }

    // Makes room for the largest graph that will run. Throws EngineError(out_of_memory).
    void reserve(const DecoderGraph & graph);

    // Gives the graph's tensors their memory; its inputs may be filled afterwards. Throws EngineError(out_of_memory).
    void place(const DecoderGraph & graph);

    // Throws EngineError. Running a placed graph again repeats the same work with the same result, as long as its
    // inputs are filled again (their memory is reused).
    void run(const DecoderGraph & graph);

    // Operator → executed nodes since the last call, as JSON; views and reshapes compute nothing and are not in it.
    std::string take_op_counts();

private:
    ggml_backend_t backend_ = nullptr;
    ggml_threadpool * pool_ = nullptr;
    ggml_gallocr_t allocator_ = nullptr;
    std::array<int64_t, GGML_OP_COUNT> op_counts_{};
    std::array<const char *, GGML_OP_COUNT> op_names_{};
};

}  // namespace farm
