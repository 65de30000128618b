// A stage of the run: its begin and end events, its counters, and the place where faults strike.
#pragma once

#include "events.h"
#include "faults.h"
#include "process_stats.h"

namespace farm {

class Stage {
public:
    // Writes stage_begin, then lets the faults strike. `name` must be a string that lives for ever.
    Stage(Events & events, const Faults & faults, const char * name, int iteration);

    // Writes stage_end with the counters below, the process counters and the duration; returns the duration in µs.
    // Not called when an error ends the stage: a stage without an end failed, and the `error` event names it.
    // `already_slowed`: the stage has applied its slowness itself, step by step.
    int64_t end(bool already_slowed = false);

    JsonObject counters;

private:
    Events & events_;
    const Faults & faults_;
    const char * name_;
    int iteration_;
    IoCounters io_;
    int64_t begin_us_;
    int64_t cpu_begin_us_;
};

}  // namespace farm
