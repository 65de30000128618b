// The reference engine: a llama-like decoder on ggml that tells what it does while it does it.
#include <sys/prctl.h>

#include "clock.h"
#include "crash.h"
#include "engine.h"
#include "events.h"

int main(int argc, char ** argv) {
    farm::g_stream.start_us = farm::monotonic_us();
    prctl(PR_SET_NAME, "farm-engine");
    farm::install_crash_handler();
    return farm::engine_main(argc, argv);
}
