/* May this block be a sampled one? A load and a comparison, so that freeing the others costs
 * nothing more.
 *
 * One counter of how many sampled blocks begin in each 256 bytes of the address space, folded to
 * 2^20 counters. Blocks that lie together have their counters together, so that the part in use
 * stays in the cache. A counter that reaches 255 stays there: then the table of live blocks is
 * asked once more than needed, and nothing is wrong.
 *
 * No ordering is needed: whoever frees a block has it from whoever allocated it, in an order of the
 * program's own making.
 */
#ifndef DBALLOC_PROBE_FILTER_H
#define DBALLOC_PROBE_FILTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { FILTER_SIZE = 1 << 20, FILTER_FULL = 255 };

extern _Atomic unsigned char filter[FILTER_SIZE];

static inline _Atomic unsigned char *filter_counter(const void *block)
{
    const uintptr_t address = (uintptr_t)block;
    return &filter[(address >> 8 ^ address >> 28) & (FILTER_SIZE - 1)];
}

static inline bool filter_hit(const void *block)
{
    return atomic_load_explicit(filter_counter(block), memory_order_relaxed) != 0;
}

void filter_add(const void *block);
void filter_remove(const void *block);
/* Makes it a hit for ever. */
void filter_pin(const void *block);

#endif
