// Typed reads from GGUF metadata. ggml aborts on a wrong type; these throw an EngineError that names the key.
#pragma once

#include <gguf.h>

#include <optional>
#include <string>
#include <vector>

namespace farm {

std::optional<int64_t> find_int(const gguf_context * gguf, const std::string & key);
std::optional<double> find_float(const gguf_context * gguf, const std::string & key);
std::optional<std::string> find_string(const gguf_context * gguf, const std::string & key);

// Throws EngineError(model_file) when the key is missing or the value lies outside [min, max].
int64_t need_int(const gguf_context * gguf, const std::string & key, int64_t min, int64_t max);

// The id of an array key of the given element type. Throws EngineError(model_file).
int64_t need_array(const gguf_context * gguf, const std::string & key, gguf_type type);

}  // namespace farm
