/* How long malloc and free take: one call in LATENCY_PERIOD is timed. Of those that took
 * LATENCY_STALLED ns or more all have their stack taken, of the others one in LATENCY_STACKS. */
#ifndef DBALLOC_PROBE_LATENCY_H
#define DBALLOC_PROBE_LATENCY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sample.h"

/* Sizes: class 0 is 0 bytes, class k is 2^(k-1) to 2^k - 1. Times: bucket b < 4 is b ns; then four
 * for each doubling. */
enum {
    LATENCY_PERIOD = 1024,
    LATENCY_SIZES = 48,
    LATENCY_TIMES = 160,
    LATENCY_STACKS = 32,
    LATENCY_STALLED = 100000
};

struct latency {
    _Atomic uint64_t count, nanoseconds;
};

/* What reading the clock adds to a timed call, ns; taken off. */
extern uint64_t latency_overhead;

/* False with errno if there is no memory for it. */
bool latency_begin(void);
/* The nanoseconds that count: less what reading the clock takes. */
uint64_t latency_add(enum operation operation, size_t size, uint64_t nanoseconds);
struct latency *latency_of(enum operation operation, uint32_t size_class, uint32_t bucket);
void latency_reset(void);

#endif
