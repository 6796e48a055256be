/* How long the calls take that were timed: one histogram for each operation and size class, which
 * all threads share. */
#ifndef DBALLOC_REPLAY_LATENCY_H
#define DBALLOC_REPLAY_LATENCY_H

#include <stdatomic.h>
#include <stdint.h>

/* In the order of enum record_kind, from 0. */
#define OPERATIONS 6
/* Class 0 is up to 16 bytes, each further one up to four times as much, the last one any more. */
#define CLASSES 10
/* Bucket b < 8 is b ns; then eight for each doubling, up to 34 s. */
#define BUCKETS 272

struct latency {
    _Atomic uint64_t sampled, nanoseconds;
    _Atomic uint64_t buckets[BUCKETS];
};

/* ns that are taken off each: what reading the clock takes, of two readings a half each. */
extern uint64_t latency_clock;

void latency_begin(void);
void latency_add(unsigned operation, unsigned size_class, uint64_t nanoseconds);
const struct latency *latency_of(unsigned operation, unsigned size_class);
/* The most ns that are in a bucket. */
uint64_t latency_bucket_end(unsigned bucket);

static inline unsigned size_class_of(uint64_t size)
{
    if (size <= 16)
        return 0;
    unsigned bits = 64u - (unsigned)__builtin_clzll(size - 1);
    unsigned size_class = (bits - 3) / 2;
    return size_class < CLASSES ? size_class : CLASSES - 1;
}

/* The largest size of a class; 0: any. */
static inline uint64_t size_class_end(unsigned size_class)
{
    return size_class < CLASSES - 1 ? 16ull << (2 * size_class) : 0;
}

#endif
