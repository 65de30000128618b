// Misbehaviour on purpose, so that a farm can be tested with the real thing. Never active unless asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace farm {

// The stages of a run, in their order. A fault may name any of them.
extern const std::vector<std::string> stage_names;

class Faults {
public:
    // `specs` come from --fault; `environment` (FARM_ENGINE_FAULT, may be null) holds more, separated by commas.
    // Throws EngineError(usage) for a fault, stage or signal that does not exist.
    Faults(const std::vector<std::string> & specs, const char * environment);

    // At the begin of a stage: crashes, hangs or ends here when a fault says so.
    void enter(const char * stage) const;

    // After each generated token: holds on to more memory when a leak is asked for. Throws EngineError(out_of_memory).
    void after_token();

    // How many times slower `stage` shall be; 1.0 without a fault.
    double slowness(const char * stage) const;

    std::optional<int> final_exit_code() const { return exit_at_end_; }
    const std::vector<std::string> & active() const { return specs_; }

private:
    void parse(const std::string & spec);

    std::vector<std::string> specs_;
    std::string crash_stage_, hang_stage_, exit_stage_, slow_stage_;
    int crash_signal_ = 0;
    int exit_code_ = 0;
    double slow_factor_ = 1.0;
    double leak_mb_ = 0.0;
    std::optional<int> exit_at_end_;
};

// Makes work cost `factor` times the CPU time that it has cost since `cpu_begin_us`: by `again` (real work, repeated
// while a whole repetition fits; may be empty) and a spin for the rest. CPU time and not wall time, so that the measured
// rate falls by the factor under a CPU quota too. `tick` is called while spinning.
void slow_down(double factor, int64_t cpu_begin_us, const std::function<void()> & again,
               const std::function<void()> & tick);

}  // namespace farm
