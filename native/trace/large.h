/* Calls for large blocks, and for blocks of ours (see touches.h). */
#ifndef DBALLOC_TRACE_LARGE_H
#define DBALLOC_TRACE_LARGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "events.h"
#include "touches.h"

/* Whether a block that a call asks for is large, and so is looked at. */
static inline bool large_is(size_t size)
{
    return size >= TOUCHES_LEAST;
}

/* A block of ours for the call from that place (see sites.h), NULL if it is the malloc's to give. Sets
 * the place's number, 0 if nothing is recorded. */
void *large_allocate(size_t size, size_t alignment, uintptr_t place, uint32_t *site);

/* Frees and records a block of ours; false if it is none. */
bool large_free(unsigned kind, const void *block, size_t size);

/* realloc of a block of ours to a block of the malloc's. */
void *large_realloc(const void *block, size_t size, const struct touched_block *which);

/* Writes what of a block of ours was touched: TOUCHED and RUN. */
enum { LARGE_RECORDS = (1 + TOUCHES_RUNS) * LONGEST_RECORD };
void large_put_touches(struct encoder *to, const void *block, const struct touched_block *which);

#endif
