#include "json.h"

#include <cmath>
#include <cstdio>

namespace farm {

namespace {

// Length of the valid UTF-8 sequence at the head of `s`, or 0. Refuses overlong forms, surrogates and > U+10FFFF.
size_t utf8_length(std::string_view s) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) {
        return 1;
    }
    const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || s.size() < length) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((byte(i) & 0xC0) != 0x80) {
            return 0;
        }
    }
    const unsigned char second = byte(1);
    const bool bad = (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
                     (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F);
    return bad ? 0 : length;
}

void append_escaped(std::string & out, unsigned char c) {
    switch (c) {
        case '"': out += "\\\""; return;
        case '\\': out += "\\\\"; return;
        case '\n': out += "\\n"; return;
        case '\r': out += "\\r"; return;
        case '\t': out += "\\t"; return;
        default: break;
    }
    if (c < 0x20 || c == 0x7F) {
        char buffer[8];
        std::snprintf(buffer, sizeof(buffer), "\\u%04x", c);
        out += buffer;
    } else {
        out += static_cast<char>(c);
    }
}

}  // namespace

void append_json_string(std::string & out, std::string_view text) {
    out += '"';
    while (!text.empty()) {
        const size_t length = utf8_length(text);
        if (length == 1) {
            append_escaped(out, static_cast<unsigned char>(text[0]));
        } else if (length == 0) {
            out += "\\ufffd";
        } else {
            out.append(text.substr(0, length));
        }
        text.remove_prefix(length == 0 ? 1 : length);
    }
    out += '"';
}

void JsonObject::key(const char * name) {
    if (body_.size() > 1) {
        body_ += ',';
    }
    body_ += '"';
    body_ += name;
    body_ += "\":";
}

JsonObject & JsonObject::add(const char * name, std::string_view value) {
    key(name);
    append_json_string(body_, value);
    return *this;
}

JsonObject & JsonObject::add(const char * name, int64_t value) {
    key(name);
    body_ += std::to_string(value);
    return *this;
}

JsonObject & JsonObject::add(const char * name, uint64_t value) {
    key(name);
    body_ += std::to_string(value);
    return *this;
}

JsonObject & JsonObject::add(const char * name, bool value) {
    key(name);
    body_ += value ? "true" : "false";
    return *this;
}

JsonObject & JsonObject::add(const char * name, double value) {
    if (!std::isfinite(value)) {
        return add_null(name);
    }
    char buffer[32];
    std::snprintf(buffer, sizeof(buffer), "%.9g", value);
    return add_raw(name, buffer);
}

JsonObject & JsonObject::add_null(const char * name) { return add_raw(name, "null"); }

JsonObject & JsonObject::add_raw(const char * name, std::string_view json) {
    key(name);
    body_ += json;
    return *this;
}

JsonObject & JsonObject::add(const char * name, const std::vector<std::string> & values) {
    std::vector<std::string> quoted;
    for (const std::string & value : values) {
        append_json_string(quoted.emplace_back(), value);
    }
    return add_raw(name, json_array(quoted));
}

std::string json_array(const std::vector<std::string> & items) {
    std::string out = "[";
    for (size_t i = 0; i < items.size(); i++) {
        out += i ? "," : "";
        out += items[i];
    }
    return out + "]";
}

}  // namespace farm
