// What happens on a fatal signal: a tombstone on standard error, an `error` event, and then the signal itself.
#pragma once

#include <cstdint>

namespace farm {

// Handles SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP and SIGSYS on a stack of its own. The process still dies
// by the signal, so that its exit status tells the truth. Also routes ggml's aborts and std::terminate into it.
void install_crash_handler();

// The program counters of the thread that a signal interrupted, innermost first, by its frame pointers: at most `limit`
// of them; returns how many. `context`: the handler's third argument. Async-signal-safe.
int interrupted_stack(const void * context, uintptr_t * pcs, int limit);

}  // namespace farm
