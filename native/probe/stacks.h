/* The table of call stacks, each kept once, with the sums of what was allocated there. It only
 * grows. */
#ifndef DBALLOC_PROBE_STACKS_H
#define DBALLOC_PROBE_STACKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sample.h"

enum { STACK_DEPTH = 256 };

/* Timed calls of one operation, and the stalled ones among them: how many, and their nanoseconds.
 */
struct stack_times {
    _Atomic uint64_t calls, nanoseconds, stalls, stalled;
};

/* pcs: return addresses, the innermost first. objects, bytes, variance (of bytes): estimates since
 * the last reset; times: of the timed calls whose stack was taken, since then. */
struct stack {
    uint64_t hash;
    uint32_t depth;
    uint32_t truncated;
    _Atomic double objects, bytes, variance;
    _Atomic uint64_t samples;
    struct stack_times times[OPERATIONS];
    uintptr_t pcs[];
};

/* Samples whose stack had no room. */
extern _Atomic uint64_t stacks_lost;

/* False with errno if there is no memory for it. */
bool stacks_begin(void);

/* The entry of that stack. If the table is full: one entry for all other stacks, without frames.
 */
struct stack *stacks_of(const uintptr_t *pcs, uint32_t depth, bool truncated);

uint32_t stacks_id(const struct stack *stack);

/* Stacks one after the other, from *cursor = 0 on; NULL at the end. */
struct stack *stacks_next(uint32_t *cursor);

/* Sets the sums to 0. */
void stacks_reset(void);

#endif
