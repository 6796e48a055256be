/* Which pages of large blocks the program ever touches.
 *
 * A malloc's pages tell nothing when a block is freed: they may have been touched for another block
 * before. So a sample of large blocks is not the malloc's, but fresh mappings of ours, of which the
 * kernel knows (mincore(2)) what was touched.
 */
#ifndef DBALLOC_TRACE_TOUCHES_H
#define DBALLOC_TRACE_TOUCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TOUCHES_LEAST = 8 << 10, SMALLEST_PAGE = 4096 };

/* A block of ours. */
struct touched_block {
    size_t size;
    uint32_t site;
    unsigned rarity; /* it was drawn as one in 4^rarity */
};

/* A block for a call from that site, zeroed: for one in 4^rarity calls. NULL: it is the malloc's.
 * `alignment`: a power of two, 0 if it does not matter. */
void *touches_allocate(
        uint64_t *random, size_t size, size_t alignment, uint32_t site, unsigned rarity);

/* Whether a block may be one of ours: all of those begin a page, which on some kernels is larger than
 * the smallest. Also of NULL. */
static inline bool touches_may_be(const void *block)
{
    return ((uintptr_t)block & (SMALLEST_PAGE - 1)) == 0;
}

/* Whether it is one of ours, and which. */
bool touches_is(const void *block, struct touched_block *which);

/* Unmaps a block of ours. False if it is none. */
bool touches_free(const void *block);

/* The pages of a block of ours that were touched, as pairs of how many were not since the last pair,
 * and how many were; returns the number of pairs. Where there are more, the last one has all the
 * touched pages that are left. */
enum { TOUCHES_RUNS = 128 };
struct touched_run {
    uint32_t untouched, touched;
};
size_t touches_look(const void *block, size_t size, struct touched_run runs[TOUCHES_RUNS]);

/* A block of ours as another thread finds it, whose program may free it meanwhile. */
struct touched_place {
    const void *block;
    struct touched_block which;
    uint32_t entry, version;
};

/* Blocks of ours one after the other, from *cursor = 0 on; false at the end. */
bool touches_next(uint32_t *cursor, struct touched_place *place);

/* Whether the block was still there, all the time since touches_next. */
bool touches_is_still(const struct touched_place *place);

/* Bytes of all blocks of ours: that were asked for, and that have been touched so far. */
struct touched_bytes {
    uint64_t asked, touched;
};
struct touched_bytes touches_measure(void);

#endif
