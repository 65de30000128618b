#include "stage.h"

#include "clock.h"

namespace farm {

Stage::Stage(Events & events, const Faults & faults, const char * name, int iteration)
    : events_(events), faults_(faults), name_(name), iteration_(iteration) {
    g_stream.stage = name;
    g_stream.iteration = iteration;
    events.set_progress(0, -1);
    events.emit("stage_begin", JsonObject().add("stage", name).add("iteration", iteration));
    events.stage_begin_us_ = monotonic_us();
    faults.enter(name);
    io_ = io_counters();
    cpu_begin_us_ = process_cpu_us();
    begin_us_ = monotonic_us();
}

int64_t Stage::end(bool already_slowed) {
    if (!already_slowed) {
        slow_down(faults_.slowness(name_), cpu_begin_us_, nullptr, [this] { events_.tick(); });
    }
    const int64_t duration = monotonic_us() - begin_us_;
    const IoCounters now = io_counters();
    counters.add("minor_faults", now.minor_faults - io_.minor_faults);
    counters.add("major_faults", now.major_faults - io_.major_faults);
    if (now.bytes_read && io_.bytes_read) {
        counters.add("bytes_read", *now.bytes_read - *io_.bytes_read);
    } else {
        counters.add_null("bytes_read");
    }
    JsonObject fields;
    fields.add("stage", name_).add("iteration", iteration_).add("dur_us", duration);
    events_.emit("stage_end", fields.add_raw("counters", counters.str()));
    g_stream.stage = nullptr;
    return duration;
}

}  // namespace farm
