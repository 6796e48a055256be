/* The kernel's clocks in nanoseconds. */
#ifndef DBALLOC_PRELOAD_CLOCK_H
#define DBALLOC_PRELOAD_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now); /* it cannot fail for a clock that exists */
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

#endif
