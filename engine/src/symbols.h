// Names of functions in this very executable, usable from a signal handler.
#pragma once

#include <cstddef>
#include <cstdint>

namespace farm {

// Maps /proc/self/exe and finds its symbol table and build id. Called once, before handlers are installed.
void load_own_symbols();

struct Frame {
    uint64_t file_pc = 0;           // address as in the file, whatever the load address
    const char * name = nullptr;    // mangled; null when unknown
    uint64_t offset = 0;            // from the begin of the function
    bool in_executable = false;
};

Frame describe_pc(uintptr_t pc);     // async-signal-safe
const char * own_path();             // where the executable lies
const char * own_build_id();         // lower-case hex; empty when the linker wrote none

}  // namespace farm
