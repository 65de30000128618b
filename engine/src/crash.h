// What happens on a fatal signal: a tombstone on standard error, an `error` event, and then the signal itself.
#pragma once

namespace farm {

// Handles SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP and SIGSYS on a stack of its own. The process still dies
// by the signal, so that its exit status tells the truth. Also routes ggml's aborts and std::terminate into it.
void install_crash_handler();

}  // namespace farm
