// What an app's runtime knows of its threads, and the trace that it writes when the system asks (SIGQUIT): ART's part.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <string>

namespace farm::app {

// Makes the calling thread known under a name until it ends.
class Thread {
public:
    explicit Thread(const std::string & name);
    ~Thread();
};

// One managed frame of the calling thread, `com.farm.Main.onClick(Main.java:41)`, for as long as it lives.
class Call {
public:
    explicit Call(const char * frame);
    ~Call();
};

// A monitor as `synchronized` uses it: a mutex whose owner, and who waits for it, are known to the trace.
class Monitor {
public:
    explicit Monitor(const char * type) : type_(type) {}
    void enter();
    void leave();

    uint32_t id() const { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(this)) | 0x01000000u; }
    const char * type() const { return type_; }

private:
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
    const char * type_;
};

// Starts the thread that answers SIGQUIT: it writes `path`.part and renames it, so that `path` is whole when it is
// there. Called first of all, before other threads, which must have the signal blocked.
void start_signal_catcher(const std::string & package, const std::string & path);

}  // namespace farm::app
