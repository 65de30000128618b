#include "options.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "errors.h"
#include "json.h"

namespace farm {

namespace {

struct IntOption {
    const char * name;
    int64_t Options::* field;
    int64_t min, max;
    const char * help;
};

struct TextOption {
    const char * name;
    std::string Options::* field;
    const char * type;
    const char * help;
};

struct FlagOption {
    const char * name;
    bool Options::* field;
    const char * help;
};

const IntOption int_options[] = {
    {"--prompt-tokens", &Options::prompt_tokens, 1, 1 << 20, "make up a prompt of so many tokens from --seed"},
    {"--n-predict", &Options::n_predict, 0, 1 << 20, "tokens to generate"},
    {"--threads", &Options::threads, 1, 64, "threads that compute"},
    {"--ctx", &Options::ctx, 1, 1 << 20, "positions in the KV cache"},
    {"--batch", &Options::batch, 1, 4096, "prompt tokens evaluated at once"},
    {"--seed", &Options::seed, 0, INT64_MAX, "seed of the made-up prompt; decoding is greedy and has no chance in it"},
    {"--repeat", &Options::repeat, 1, 100000, "measured iterations in this process"},
    {"--warmup", &Options::warmup, 0, 100000, "iterations before the measured ones"},
};

const TextOption text_options[] = {
    {"--model", &Options::model, "path", "GGUF model file"},
    {"--prompt", &Options::prompt, "text", "prompt"},
    {"--events", &Options::events, "path", "event stream: a file, or - for standard output"},
    {"--dump-logits", &Options::dump_logits, "path", "write the logits behind each sampled token, float32 little-endian"},
};

const FlagOption flag_options[] = {
    {"--ignore-eos", &Options::ignore_eos, "go on after an end-of-sequence token"},
    {"--describe", &Options::describe, "print what this build is and can do as JSON, then end"},
    {"--help", &Options::help, "print this text, then end"},
};

constexpr const char * fault_help =
    "misbehave on purpose: crash=STAGE[:SIGNAL], hang=STAGE, leak=MB_PER_TOKEN, slow-stage=STAGE:FACTOR, "
    "exit=CODE[:STAGE]; may be repeated; FARM_ENGINE_FAULT holds more, separated by commas";

[[noreturn]] void refuse(const std::string & message) {
    throw EngineError(ExitCode::usage, message + " (--help lists the options)");
}

int64_t parse_int(const IntOption & option, const char * text) {
    char * end = nullptr;
    errno = 0;
    const long long value = std::strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < option.min || value > option.max) {
        refuse(std::string(option.name) + " wants a whole number from " + std::to_string(option.min) + " to " +
               std::to_string(option.max) + ", not '" + text + "'");
    }
    return value;
}

bool apply(Options & options, const std::string & name, const char * value, bool & used_value) {
    for (const FlagOption & option : flag_options) {
        if (name == option.name) {
            options.*option.field = true;
            used_value = false;
            return true;
        }
    }
    used_value = true;
    const bool known = name == "--fault";
    for (const IntOption & option : int_options) {
        if (name == option.name) {
            if (value == nullptr) {
                refuse(name + " needs a value");
            }
            options.*option.field = parse_int(option, value);
            return true;
        }
    }
    for (const TextOption & option : text_options) {
        if (name == option.name) {
            if (value == nullptr) {
                refuse(name + " needs a value");
            }
            options.*option.field = value;
            options.has_prompt = options.has_prompt || name == "--prompt";
            return true;
        }
    }
    if (known) {
        if (value == nullptr) {
            refuse(name + " needs a value");
        }
        options.faults.emplace_back(value);
    }
    return known;
}

}  // namespace

Options parse_options(int argc, char ** argv) {
    Options options;
    for (int i = 1; i < argc; i++) {
        bool used_value = false;
        if (!apply(options, argv[i], i + 1 < argc ? argv[i + 1] : nullptr, used_value)) {
            refuse(std::string("unknown option '") + argv[i] + "'");
        }
        i += used_value ? 1 : 0;
    }
    if (options.help || options.describe) {
        return options;
    }
    if (options.model.empty()) {
        refuse("--model is missing");
    }
    if (options.has_prompt == (options.prompt_tokens > 0)) {
        refuse("give exactly one of --prompt and --prompt-tokens");
    }
    return options;
}

std::string events_target(int argc, char ** argv) {
    for (int i = 1; i + 1 < argc; i++) {
        if (std::strcmp(argv[i], "--events") == 0) {
            return argv[i + 1];
        }
    }
    return "";
}

std::string options_help() {
    const Options defaults;
    std::string out = "usage: farm-engine --model FILE (--prompt TEXT | --prompt-tokens N) [options]\n\n";
    for (const TextOption & option : text_options) {
        out += std::string("  ") + option.name + " " + option.type + ": " + option.help + "\n";
    }
    for (const IntOption & option : int_options) {
        out += std::string("  ") + option.name + " N: " + option.help + " [" +
               std::to_string(defaults.*option.field) + "]\n";
    }
    for (const FlagOption & option : flag_options) {
        out += std::string("  ") + option.name + ": " + option.help + "\n";
    }
    return out + "  --fault SPEC: " + fault_help + "\n";
}

std::string options_json() {
    const Options defaults;
    std::vector<std::string> items;
    for (const TextOption & option : text_options) {
        JsonObject item;
        item.add("name", option.name).add("type", option.type).add_null("default").add("help", option.help);
        items.push_back(item.str());
    }
    for (const IntOption & option : int_options) {
        JsonObject item;
        item.add("name", option.name).add("type", "int");
        const bool absent = option.field == &Options::prompt_tokens;
        absent ? item.add_null("default") : item.add("default", defaults.*option.field);
        items.push_back(item.add("min", option.min).add("max", option.max).add("help", option.help).str());
    }
    for (const FlagOption & option : flag_options) {
        JsonObject item;
        item.add("name", option.name).add("type", "flag").add("default", false).add("help", option.help);
        items.push_back(item.str());
    }
    JsonObject fault;
    fault.add("name", "--fault").add("type", "text").add_null("default").add("repeatable", true).add("help", fault_help);
    items.push_back(fault.str());
    return json_array(items);
}

}  // namespace farm
