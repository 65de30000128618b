#include "faults.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "clock.h"
#include "errors.h"

namespace farm {

const std::vector<std::string> stage_names = {"load.open", "load.map", "load.tokenizer", "load.init",
                                              "warmup",    "prefill",  "decode"};

namespace {

struct NamedSignal {
    const char * name;
    int number;
};

const NamedSignal signals[] = {{"SEGV", SIGSEGV}, {"ABRT", SIGABRT}, {"BUS", SIGBUS},   {"ILL", SIGILL},
                               {"FPE", SIGFPE},   {"TRAP", SIGTRAP}, {"KILL", SIGKILL}, {"TERM", SIGTERM}};

[[noreturn]] void refuse(const std::string & spec, const std::string & why) {
    throw EngineError(ExitCode::usage, "fault '" + spec + "': " + why);
}

std::string known_stage(const std::string & spec, const std::string & stage) {
    if (std::find(stage_names.begin(), stage_names.end(), stage) == stage_names.end()) {
        std::string all;
        for (const std::string & name : stage_names) {
            all += (all.empty() ? "" : ", ") + name;
        }
        refuse(spec, "there is no stage '" + stage + "' (stages: " + all + ")");
    }
    return stage;
}

int known_signal(const std::string & spec, std::string name) {
    if (name.rfind("SIG", 0) == 0) {
        name.erase(0, 3);
    }
    for (const NamedSignal & signal : signals) {
        if (name == signal.name) {
            return signal.number;
        }
    }
    refuse(spec, "there is no signal '" + name + "' (SEGV, ABRT, BUS, ILL, FPE, TRAP, KILL, TERM)");
}

double number(const std::string & spec, const std::string & text, double min, double max) {
    char * end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !(value >= min && value <= max)) {
        refuse(spec, "wants a number from " + std::to_string(min) + " to " + std::to_string(max) + ", not '" + text + "'");
    }
    return value;
}

}  // namespace

// Names that a stack dump shows; C linkage so that they read as written.
extern "C" {

__attribute__((noinline)) void farm_fault_null_write() {
    volatile int * volatile nowhere = nullptr;
    *nowhere = 1;
}

__attribute__((noinline)) void farm_fault_raise(int signal) {
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal);
}

__attribute__((noinline)) void farm_fault_crash(int signal) {
    if (signal == SIGSEGV) {
        farm_fault_null_write();
    } else if (signal == SIGABRT) {
        std::abort();
    } else {
        farm_fault_raise(signal);
    }
}

__attribute__((noinline)) void farm_fault_hang() {
    for (;;) {
        pause();
    }
}

}  // extern "C"

Faults::Faults(const std::vector<std::string> & specs, const char * environment) : specs_(specs) {
    std::string rest = environment ? environment : "";
    while (!rest.empty()) {
        const size_t comma = rest.find(',');
        if (comma != 0) {
            specs_.push_back(rest.substr(0, comma));
        }
        rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    }
    for (const std::string & spec : specs_) {
        parse(spec);
    }
}

void Faults::parse(const std::string & spec) {
    const size_t equals = spec.find('=');
    const std::string kind = spec.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : spec.substr(equals + 1);
    const size_t colon = value.find(':');
    const std::string first = value.substr(0, colon);
    const std::string second = colon == std::string::npos ? "" : value.substr(colon + 1);
    if (kind == "crash") {
        crash_stage_ = known_stage(spec, first);
        crash_signal_ = second.empty() ? SIGSEGV : known_signal(spec, second);
    } else if (kind == "hang") {
        hang_stage_ = known_stage(spec, value);
    } else if (kind == "leak") {
        leak_mb_ = number(spec, value, 0.001, 4096);
    } else if (kind == "slow-stage") {
        slow_stage_ = known_stage(spec, first);
        slow_factor_ = number(spec, second, 1.0, 1000.0);
    } else if (kind == "exit") {
        exit_code_ = static_cast<int>(number(spec, first, 0, 255));
        exit_stage_ = second.empty() ? "" : known_stage(spec, second);
        if (second.empty()) {
            exit_at_end_ = exit_code_;
        }
    } else {
        refuse(spec, "there is no such fault (crash, hang, leak, slow-stage, exit)");
    }
}

void Faults::enter(const char * stage) const {
    if (crash_stage_ == stage) {
        farm_fault_crash(crash_signal_);
    }
    if (hang_stage_ == stage) {
        farm_fault_hang();
    }
    if (exit_stage_ == stage) {
        throw RequestedExit{exit_code_};
    }
}

void Faults::after_token() {
    if (leak_mb_ <= 0.0) {
        return;
    }
    const size_t bytes = static_cast<size_t>(leak_mb_ * 1024 * 1024);
    void * block = std::malloc(bytes);
    if (block == nullptr) {
        throw EngineError(ExitCode::out_of_memory, "cannot allocate " + std::to_string(bytes) + " more bytes");
    }
    // Written and never freed: a page that was not touched would not count as resident. The empty statement keeps the
    // compiler from dropping a block that nobody reads.
    std::memset(block, 0xA5, bytes);
    __asm__ volatile("" : : "r"(block) : "memory");
}

double Faults::slowness(const char * stage) const { return slow_stage_ == stage ? slow_factor_ : 1.0; }

void slow_down(double factor, int64_t cpu_begin_us, const std::function<void()> & again,
               const std::function<void()> & tick) {
    if (factor <= 1.0) {
        return;
    }
    const int64_t base = process_cpu_us() - cpu_begin_us;
    const int64_t end = cpu_begin_us + static_cast<int64_t>(std::llround(static_cast<double>(base) * factor));
    int64_t once = 0;
    while (again && process_cpu_us() + once < end) {
        const int64_t before = process_cpu_us();
        again();
        once = process_cpu_us() - before;
    }
    while (process_cpu_us() < end) {
        tick();
    }
}

}  // namespace farm
