// The command line, as one table that also feeds --help and --describe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace farm {

struct Options {
    std::string model;
    std::string prompt;
    bool has_prompt = false;
    int64_t prompt_tokens = 0;
    int64_t n_predict = 32;
    int64_t threads = 1;
    int64_t ctx = 512;
    int64_t batch = 64;
    int64_t seed = 0;
    int64_t repeat = 1;
    int64_t warmup = 0;
    bool ignore_eos = false;
    std::string events;
    std::string dump_logits;
    std::vector<std::string> faults;
    bool describe = false;
    bool help = false;
};

// Throws EngineError(usage) with one message that names the option.
Options parse_options(int argc, char ** argv);

// The target of --events, found without judging the rest of the line, so that a usage error can be an event too.
std::string events_target(int argc, char ** argv);

std::string options_help();
std::string options_json();  // [{"name", "type", "default", "min", "max", "help"}, …]

}  // namespace farm
