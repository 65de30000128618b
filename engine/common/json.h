// One JSON object on one line, built without a library: the engine and the device-side tool print nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace farm {

// Appends `text` as a quoted JSON string. Bytes that are not valid UTF-8 become U+FFFD, so that the line is valid JSON
// whatever a model or a file name contains.
void append_json_string(std::string & out, std::string_view text);

// Builds `{"a":1,"b":"x"}`. Keys are ours and are not escaped. An absent optional is written as null: unknown is a
// value and never 0.
class JsonObject {
public:
    JsonObject & add(const char * key, std::string_view value);
    JsonObject & add(const char * key, const char * value) { return add(key, std::string_view(value)); }
    JsonObject & add(const char * key, int64_t value);
    JsonObject & add(const char * key, int value) { return add(key, static_cast<int64_t>(value)); }
    JsonObject & add(const char * key, uint64_t value);
    JsonObject & add(const char * key, bool value);
    JsonObject & add(const char * key, double value);  // null when it is not finite
    JsonObject & add_null(const char * key);
    JsonObject & add_raw(const char * key, std::string_view json);  // `json` is already valid JSON
    JsonObject & add(const char * key, const std::vector<std::string> & values);

    template <typename T>
    JsonObject & add(const char * key, const std::optional<T> & value) {
        return value ? add(key, *value) : add_null(key);
    }

    // The finished text. The object may be added to afterwards and asked again.
    std::string str() const { return body_ + "}"; }

private:
    void key(const char * name);
    std::string body_ = "{";
};

// Joins finished JSON texts to an array.
std::string json_array(const std::vector<std::string> & items);

}  // namespace farm
