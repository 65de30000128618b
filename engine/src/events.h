// The event stream: one JSON object per line, one write(2) per line. EVENTS.md documents every kind.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "json.h"

namespace farm {

// What the stream is doing now. Plain data with static strings, so that a signal handler can read it.
struct StreamState {
    std::atomic<int> fd{-1};
    std::atomic<int64_t> next_seq{0};
    std::atomic<int64_t> start_us{0};
    std::atomic<const char *> stage{nullptr};  // the stage that has begun and not ended
    std::atomic<int> iteration{-1};
};

extern StreamState g_stream;

class Events {
public:
    // `target` is "-" (standard output), a path, or empty: no stream. Throws EngineError(io).
    explicit Events(const std::string & target);
    ~Events();
    Events(const Events &) = delete;
    Events & operator=(const Events &) = delete;

    bool to_stdout() const { return to_stdout_; }

    // Writes `{"v":1,"seq":…,"t_us":…,"ev":KIND,` followed by the members of `fields`. Throws EngineError(io).
    void emit(const char * kind, const JsonObject & fields);

    // Called often from inside long work: writes a `progress` event when the stream has been silent for a second.
    void tick();

    // How far the present stage is; shown by `progress`. `of` < 0: not known.
    void set_progress(int64_t done, int64_t of);

private:
    bool to_stdout_ = false;
    int64_t last_us_ = 0;
    int64_t stage_begin_us_ = 0;
    int64_t done_ = 0;
    int64_t of_ = -1;
    friend class Stage;
};

}  // namespace farm
