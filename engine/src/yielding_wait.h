// Included in front of ggml's CPU scheduler: threads that wait for each other give up the core between two looks.
//
// ggml's barriers spin on a pause instruction. With more threads than free cores, or under a CPU quota, the waiting
// thread then burns the very time that the working one needs, and each of the hundreds of barriers of a token costs a
// time slice. Devices of a farm are shared and throttled, so ours yield.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#include <sched.h>
#define _mm_pause() ((void) sched_yield())
#endif
