#include "metadata.h"

#include "errors.h"

namespace farm {

namespace {

[[noreturn]] void wrong_type(const std::string & key, const char * wanted) {
    throw EngineError(ExitCode::model_file, "model metadata '" + key + "' is not a " + wanted);
}

}  // namespace

std::optional<int64_t> find_int(const gguf_context * gguf, const std::string & key) {
    const int64_t id = gguf_find_key(gguf, key.c_str());
    if (id < 0) {
        return std::nullopt;
    }
    switch (gguf_get_kv_type(gguf, id)) {
        case GGUF_TYPE_UINT8: return gguf_get_val_u8(gguf, id);
        case GGUF_TYPE_INT8: return gguf_get_val_i8(gguf, id);
        case GGUF_TYPE_UINT16: return gguf_get_val_u16(gguf, id);
        case GGUF_TYPE_INT16: return gguf_get_val_i16(gguf, id);
        case GGUF_TYPE_UINT32: return gguf_get_val_u32(gguf, id);
        case GGUF_TYPE_INT32: return gguf_get_val_i32(gguf, id);
        case GGUF_TYPE_INT64: return gguf_get_val_i64(gguf, id);
        case GGUF_TYPE_UINT64: {
            const uint64_t value = gguf_get_val_u64(gguf, id);
            return value > INT64_MAX ? INT64_MAX : static_cast<int64_t>(value);
        }
        default: wrong_type(key, "whole number");
    }
}

std::optional<double> find_float(const gguf_context * gguf, const std::string & key) {
    const int64_t id = gguf_find_key(gguf, key.c_str());
    if (id < 0) {
        return std::nullopt;
    }
    switch (gguf_get_kv_type(gguf, id)) {
        case GGUF_TYPE_FLOAT32: return static_cast<double>(gguf_get_val_f32(gguf, id));
        case GGUF_TYPE_FLOAT64: return gguf_get_val_f64(gguf, id);
        default: wrong_type(key, "number");
    }
}

std::optional<std::string> find_string(const gguf_context * gguf, const std::string & key) {
    const int64_t id = gguf_find_key(gguf, key.c_str());
    if (id < 0) {
        return std::nullopt;
    }
    if (gguf_get_kv_type(gguf, id) != GGUF_TYPE_STRING) {
        wrong_type(key, "string");
    }
    return gguf_get_val_str(gguf, id);
}

int64_t need_int(const gguf_context * gguf, const std::string & key, int64_t min, int64_t max) {
    const std::optional<int64_t> value = find_int(gguf, key);
    if (!value) {
        throw EngineError(ExitCode::model_file, "model metadata '" + key + "' is missing");
    }
    if (*value < min || *value > max) {
        throw EngineError(ExitCode::model_file, "model metadata '" + key + "' is " + std::to_string(*value) +
                                                    ", outside " + std::to_string(min) + " to " + std::to_string(max));
    }
    return *value;
}

int64_t need_array(const gguf_context * gguf, const std::string & key, gguf_type type) {
    const int64_t id = gguf_find_key(gguf, key.c_str());
    if (id < 0) {
        throw EngineError(ExitCode::model_file, "model metadata '" + key + "' is missing");
    }
    if (gguf_get_kv_type(gguf, id) != GGUF_TYPE_ARRAY || gguf_get_arr_type(gguf, id) != type) {
        wrong_type(key, "list of the expected type");
    }
    return id;
}

}  // namespace farm
