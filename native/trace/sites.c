#include "sites.h"

#include <stdatomic.h>

#include "touches.h"

enum { SITES = 1 << 12, WINDOW = 32, CLASSES = 64 };
enum { ALL_SAMPLES = FIRST_SAMPLES + (LAST_RARITY - 1) * SAMPLES };

struct site {
    _Atomic uintptr_t place;          /* 0: free */
    _Atomic uint8_t samples[CLASSES]; /* blocks that were looked at, ALL_SAMPLES at most */
};

static struct site sites[SITES];

/* The size class: four an octave from TOUCHES_LEAST on, the last one without an end. */
static unsigned classify(size_t size)
{
    const uint64_t units = size > TOUCHES_LEAST ? (uint64_t)size / (TOUCHES_LEAST / 4) : 4;
    const unsigned octave = 61U - (unsigned)__builtin_clzll(units);
    const unsigned number = 4 * octave + (unsigned)(units >> octave) - 4;
    return number < CLASSES - 1 ? number : CLASSES - 1;
}

uint32_t sites_number(uintptr_t place)
{
    const uint32_t first = (uint32_t)((uint64_t)place * 0x9E3779B97F4A7C15U >> 52);
    for (uint32_t i = 0; i < WINDOW; i++) {
        const uint32_t at = (first + i) % SITES;
        uintptr_t key = atomic_load_explicit(&sites[at].place, memory_order_relaxed);
        if (key == 0 && atomic_compare_exchange_strong_explicit(&sites[at].place, &key, place,
                                memory_order_relaxed, memory_order_relaxed))
            key = place;
        if (key == place)
            return at + 1;
    }
    return 0;
}

unsigned sites_rarity(uint32_t site, size_t size)
{
    if (site == 0)
        return LAST_RARITY;
    const unsigned samples =
            atomic_load_explicit(&sites[site - 1].samples[classify(size)], memory_order_relaxed);
    return samples < FIRST_SAMPLES ? 0 : 1 + (samples - FIRST_SAMPLES) / SAMPLES;
}

void sites_count_sample(uint32_t site, size_t size)
{
    if (site == 0)
        return;
    _Atomic uint8_t *samples = &sites[site - 1].samples[classify(size)];
    uint8_t before = atomic_load_explicit(samples, memory_order_relaxed);
    /* If another thread counts at the same moment, one of both is enough. */
    if (before >= ALL_SAMPLES)
        return;
    (void)atomic_compare_exchange_strong_explicit(
            samples, &before, (uint8_t)(before + 1), memory_order_relaxed, memory_order_relaxed);
}
