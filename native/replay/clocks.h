/* The clocks, in ns. */
#ifndef DBALLOC_REPLAY_CLOCKS_H
#define DBALLOC_REPLAY_CLOCKS_H

#include <stdint.h>
#include <time.h>

/* None of these can fail with these clocks (clock_gettime(2)). */
static inline uint64_t clock_read(clockid_t clock)
{
    struct timespec now = {0};
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_now(void)
{
    return clock_read(CLOCK_MONOTONIC);
}

/* CPU time of the calling thread. */
static inline uint64_t clock_cpu(void)
{
    return clock_read(CLOCK_THREAD_CPUTIME_ID);
}

/* Sleep until clock_now() is that; an interruption is no end of it. */
static inline void clock_sleep_until(uint64_t moment)
{
    struct timespec until = {
            .tv_sec = (time_t)(moment / 1000000000u), .tv_nsec = (long)(moment % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0 &&
            clock_now() < moment) {
    }
}

#endif
