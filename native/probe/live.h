/* The table of sampled blocks that are alive. Lock-free; only the thread that allocates a block
 * inserts it, and only the thread that frees it removes it. */
#ifndef DBALLOC_PROBE_LIVE_H
#define DBALLOC_PROBE_LIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A snapshot holds this struct unchanged. */
struct live_block {
    uint64_t address;
    uint64_t usable;   /* malloc_usable_size */
    uint64_t bytes;    /* as requested; determines its probability */
    uint64_t interval; /* of the sampling at that time */
    uint64_t time;     /* ns, CLOCK_MONOTONIC */
    double share;      /* its part of the estimate of live bytes */
    uint32_t stack;
    uint32_t thread;
};

struct live_totals {
    _Atomic double bytes, peak; /* estimates */
    _Atomic uint64_t lost;      /* blocks without room */
    _Atomic uint64_t
            overwritten; /* the same address twice: freed in a way that the probe does not see */
};

extern struct live_totals live_totals;

/* False with errno if there is no memory for it. */
bool live_begin(void);

void live_insert(const struct live_block *block);

/* Removes a block if it is in the table, and returns it. */
bool live_remove(uintptr_t address, struct live_block *block);

/* Blocks one after the other, from *cursor = 0 on, while others come and go; false at the end. */
bool live_next(uint32_t *cursor, struct live_block *block);

#endif
