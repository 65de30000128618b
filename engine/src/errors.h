// How the engine fails: one exception type, one closed table of exit codes (also in docs/engine.md).
#pragma once

#include <stdexcept>
#include <string>

namespace farm {

enum class ExitCode : int {
    ok = 0,
    usage = 2,          // an option or a fault that does not exist, a value out of range, a prompt longer than --ctx
    model_file = 3,     // missing, truncated or inconsistent model file
    out_of_memory = 4,  // an allocation was refused
    unsupported = 5,    // a valid model, or a CPU, that this build cannot run
    not_finite = 6,     // logits became NaN or infinite: the weights or the arithmetic are broken
    internal = 70,      // our own mistake
    io = 74,            // the event stream or the logits file could not be written
};

inline const char * exit_code_name(ExitCode code) {
    switch (code) {
        case ExitCode::ok: return "ok";
        case ExitCode::usage: return "usage";
        case ExitCode::model_file: return "model_file";
        case ExitCode::out_of_memory: return "out_of_memory";
        case ExitCode::unsupported: return "unsupported";
        case ExitCode::not_finite: return "not_finite";
        case ExitCode::internal: return "internal";
        case ExitCode::io: return "io";
    }
    return "internal";
}

class EngineError : public std::runtime_error {
public:
    EngineError(ExitCode exit_code, const std::string & message) : std::runtime_error(message), code(exit_code) {}
    const ExitCode code;
};

// Thrown by the `exit=CODE` fault: ends the process in the orderly way, with a code of the fault's choosing.
struct RequestedExit {
    int code;
};

}  // namespace farm
