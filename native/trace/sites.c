#include "sites.h"

#include <stdatomic.h>

#include "touches.h"

enum { SITES = 1 << 12, WINDOW = 32 };

struct site {
    _Atomic uintptr_t place;       /* 0: free */
    _Atomic uint64_t size_classes; /* a bit for each that was seen */
};

static struct site sites[SITES];

/* A bit for each size class: four an octave from TOUCHES_LEAST on, the last one without an end. */
static uint64_t class_bit(size_t size)
{
    const uint64_t units = size > TOUCHES_LEAST ? (uint64_t)size / (TOUCHES_LEAST / 4) : 4;
    const unsigned octave = 61U - (unsigned)__builtin_clzll(units);
    const unsigned number = 4 * octave + (unsigned)(units >> octave) - 4;
    return 1ULL << (number < 63 ? number : 63);
}

uint32_t sites_number(uintptr_t place, size_t size, bool *is_first)
{
    const uint32_t first = (uint32_t)((uint64_t)place * 0x9E3779B97F4A7C15U >> 52);
    const uint64_t bit = class_bit(size);
    for (uint32_t i = 0; i < WINDOW; i++) {
        const uint32_t at = (first + i) % SITES;
        uintptr_t key = atomic_load_explicit(&sites[at].place, memory_order_relaxed);
        if (key == 0 && atomic_compare_exchange_strong_explicit(&sites[at].place, &key, place,
                                memory_order_relaxed, memory_order_relaxed))
            key = place;
        if (key != place)
            continue;
        *is_first =
                (atomic_load_explicit(&sites[at].size_classes, memory_order_relaxed) & bit) == 0 &&
                (atomic_fetch_or_explicit(&sites[at].size_classes, bit, memory_order_relaxed) &
                        bit) == 0;
        return at + 1;
    }
    *is_first = false;
    return 0;
}
