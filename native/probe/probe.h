/* The probe's state, and what its parts share. */
#ifndef DBALLOC_PROBE_PROBE_H
#define DBALLOC_PROBE_PROBE_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* NOT_YET: the constructor has not run. INERT: forwarding alone, for good: not asked for, or a
 * forked child. */
enum state { NOT_YET, RUNNING, INERT };

struct probe {
    _Atomic int state;
    _Atomic uint64_t interval;  /* mean bytes between samples; 0: idle */
    uint64_t first_interval;    /* what `start` returns to */
    pid_t owner;                /* the process that the probe was loaded into */
    uint64_t began;             /* ns, CLOCK_MONOTONIC */
    _Atomic uint64_t reset;     /* when the sums were last set to 0: ns, CLOCK_MONOTONIC */
    _Atomic uint64_t reset_cpu; /* CPU time of the process then, ns */
    char directory[4096];
};

extern struct probe probe;

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now); /* it cannot fail for a clock that exists */
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* Adds to a double that many threads add to. */
static inline void add_double(_Atomic double *sum, double value)
{
    double old = atomic_load_explicit(sum, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(
            sum, &old, old + value, memory_order_relaxed, memory_order_relaxed)) {
    }
}

#endif
