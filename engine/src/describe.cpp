#include "describe.h"

#include <ggml.h>

#include "backend.h"
#include "build_info.h"
#include "faults.h"
#include "json.h"
#include "model_file.h"
#include "options.h"
#include "symbols.h"

namespace farm {

std::string build_json() {
    JsonObject build;
    // No commit and no date in the binary: the same sources give the same bytes. The bundle names the commit.
    build.add("content", engine_content_hash).add("build_id", own_build_id()).add("flavour", engine_flavour);
    build.add("compiler", engine_compiler).add("flags", engine_flags).add("ggml", ggml_version());
    return build.str();
}

std::string describe_json() {
    JsonObject cpu;
    cpu.add("name", "CPU").add("features", cpu_kernel_features());
    JsonObject out;
    out.add("engine", engine_name).add("version", engine_version).add_raw("build", build_json());
    out.add("abi", engine_abi).add("event_stream", event_stream_version);
    out.add_raw("backends", json_array({cpu.str()}));
    out.add("architectures", std::vector<std::string>{"llama"});
    out.add("tokenizers", std::vector<std::string>{"bytes"});
    std::vector<std::string> types;
    for (const ggml_type type : weight_types) {
        types.emplace_back(ggml_type_name(type));
    }
    out.add("weight_types", types);
    out.add("kv_types", std::vector<std::string>{"f32"});
    out.add("load_modes", std::vector<std::string>{"mmap"});
    out.add("stages", stage_names);
    return out.add_raw("options", options_json()).str();
}

}  // namespace farm
