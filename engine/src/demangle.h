// Readable names in a tombstone without allocating: the qualified name of a C++ function, its parameters left out.
#pragma once

#include <cstring>

#include "safe_writer.h"

namespace farm {

// Writes `farm::Session::decode` for `_ZN4farm7Session6decodeEi…`; a name that is not of this simple kind (templates,
// operators) is written as it is. Itanium C++ ABI, section 5.1.
inline void write_name(SafeWriter & out, const char * mangled) {
    const char * p = mangled;
    if (p[0] != '_' || p[1] != 'Z') {
        out.text(mangled);
        return;
    }
    p += 2;
    const bool nested = *p == 'N';
    p += nested ? 1 : 0;
    p += *p == 'K' || *p == 'L' ? 1 : 0;  // a const member function; internal linkage
    char name[512];
    size_t used = 0;
    const char * last = nullptr;
    size_t last_length = 0;
    const auto append = [&](const char * text, size_t length) {
        const size_t needed = length + (used > 0 ? 2 : 0);
        if (used + needed >= sizeof(name)) {
            return false;
        }
        if (used > 0) {
            std::memcpy(name + used, "::", 2);
            used += 2;
        }
        std::memcpy(name + used, text, length);
        used += length;
        return true;
    };
    bool ok = true;
    do {
        size_t length = 0;
        while (*p >= '0' && *p <= '9' && length < 1000) {
            length = length * 10 + static_cast<size_t>(*p++ - '0');
        }
        const bool special = length == 0 && last != nullptr && (*p == 'C' || *p == 'D') && p[1] >= '0' && p[1] <= '4';
        if (special) {  // constructor or destructor: the class's own name again
            ok = append(last, last_length);
            p += 2;
        } else if (length == 0 || strnlen(p, length) < length) {
            ok = false;
        } else if (length == 12 && std::memcmp(p, "_GLOBAL__N_1", 12) == 0) {
            ok = append("(anonymous namespace)", 21);
            p += length;
        } else {
            last = p;
            last_length = length;
            ok = append(p, length);
            p += length;
        }
    } while (ok && nested && *p != 'E' && *p != '\0');
    name[used] = '\0';
    out.text(ok && used > 0 ? name : mangled);
}

}  // namespace farm
