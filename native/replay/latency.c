#include "latency.h"

#include "clocks.h"
#include "memory.h"

uint64_t latency_clock;
static struct latency (*latencies)[CLASSES];

static unsigned bucket_of(uint64_t nanoseconds)
{
    if (nanoseconds < 8)
        return (unsigned)nanoseconds;
    unsigned exponent = 63u - (unsigned)__builtin_clzll(nanoseconds);
    unsigned bucket = (exponent - 2) * 8 + (unsigned)(nanoseconds >> (exponent - 3) & 7);
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

uint64_t latency_bucket_end(unsigned bucket)
{
    if (bucket < 8)
        return bucket;
    unsigned exponent = bucket / 8 + 2;
    return ((8ull + bucket % 8 + 1) << (exponent - 3)) - 1;
}

void latency_begin(void)
{
    latencies = memory_map_present(OPERATIONS, sizeof *latencies);
    /* The least of many: the rest was interrupted. */
    latency_clock = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t first = clock_now();
        uint64_t between = clock_now() - first;
        if (between < latency_clock)
            latency_clock = between;
    }
}

void latency_add(unsigned operation, unsigned size_class, uint64_t nanoseconds)
{
    struct latency *latency = &latencies[operation][size_class];
    uint64_t own = nanoseconds > latency_clock ? nanoseconds - latency_clock : 0;
    atomic_fetch_add_explicit(&latency->sampled, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&latency->nanoseconds, own, memory_order_relaxed);
    atomic_fetch_add_explicit(&latency->buckets[bucket_of(own)], 1, memory_order_relaxed);
}

const struct latency *latency_of(unsigned operation, unsigned size_class)
{
    return &latencies[operation][size_class];
}
