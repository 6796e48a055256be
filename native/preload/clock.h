/* The kernel's clocks, and sleep, in nanoseconds. */
#ifndef DBALLOC_PRELOAD_CLOCK_H
#define DBALLOC_PRELOAD_CLOCK_H

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now); /* it cannot fail for a clock that exists */
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* Sleeps so long, whatever signals come. By a raw call: nanosleep and its like are cancellation
 * points, which malloc and exit are not: a thread would end in the middle of them. */
static inline void clock_sleep(uint64_t ns)
{
    struct timespec left = {
            .tv_sec = (time_t)(ns / 1000000000U), .tv_nsec = (long)(ns % 1000000000U)};
    while (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &left, &left) != 0 && errno == EINTR) {
    }
}

#endif
