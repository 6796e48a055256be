#include "latency.h"

#include "clock.h"
#include "memory.h"

static struct latency *table;

uint64_t latency_overhead;

bool latency_begin(void)
{
    table = memory_map((size_t)OPERATIONS * LATENCY_SIZES * LATENCY_TIMES * sizeof *table);
    latency_overhead = UINT64_MAX;
    for (int i = 0; i < 64; i++) {
        const uint64_t start = clock_ns(CLOCK_MONOTONIC);
        const uint64_t took = clock_ns(CLOCK_MONOTONIC) - start;
        if (took < latency_overhead)
            latency_overhead = took;
    }
    return table != NULL;
}

static uint32_t bits(uint64_t value)
{
    return value == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(value);
}

static uint32_t bucket_of(uint64_t ns)
{
    if (ns < 4)
        return (uint32_t)ns;
    const uint32_t log = bits(ns) - 1;
    const uint32_t bucket = 4 * (log - 1) + (uint32_t)(ns >> (log - 2) & 3);
    return bucket < LATENCY_TIMES ? bucket : LATENCY_TIMES - 1;
}

struct latency *latency_of(enum operation operation, uint32_t size_class, uint32_t bucket)
{
    return &table[((uint32_t)operation * LATENCY_SIZES + size_class) * LATENCY_TIMES + bucket];
}

uint64_t latency_add(enum operation operation, size_t size, uint64_t nanoseconds)
{
    const uint64_t ns = nanoseconds > latency_overhead ? nanoseconds - latency_overhead : 0;
    const uint32_t size_class = bits(size) < LATENCY_SIZES ? bits(size) : LATENCY_SIZES - 1;
    struct latency *entry = latency_of(operation, size_class, bucket_of(ns));
    atomic_fetch_add_explicit(&entry->count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&entry->nanoseconds, ns, memory_order_relaxed);
    return ns;
}

void latency_reset(void)
{
    for (uint32_t i = 0; i < OPERATIONS * LATENCY_SIZES * LATENCY_TIMES; i++) {
        atomic_store_explicit(&table[i].count, 0, memory_order_relaxed);
        atomic_store_explicit(&table[i].nanoseconds, 0, memory_order_relaxed);
    }
}
