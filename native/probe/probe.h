/* The probe's state, and what its parts share. */
#ifndef DBALLOC_PROBE_PROBE_H
#define DBALLOC_PROBE_PROBE_H

#include <stdatomic.h>
#include <stdint.h>

/* NOT_YET: the constructor has not run. INERT: forwarding alone, for good: not asked for, or a
 * forked child. */
enum state { NOT_YET, RUNNING, INERT };

struct probe {
    _Atomic int state;
    _Atomic uint64_t interval;  /* mean bytes between samples; 0: idle */
    uint64_t first_interval;    /* what `start` returns to */
    _Atomic uint64_t reset;     /* when the sums were last set to 0: ns, CLOCK_MONOTONIC */
    _Atomic uint64_t reset_cpu; /* CPU time of the process then, ns */
};

extern struct probe probe;

/* Adds to a double that many threads add to. */
static inline void add_double(_Atomic double *sum, double value)
{
    double old = atomic_load_explicit(sum, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(
            sum, &old, old + value, memory_order_relaxed, memory_order_relaxed)) {
    }
}

#endif
