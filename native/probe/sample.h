/* Which calls are sampled and timed. */
#ifndef DBALLOC_PROBE_SAMPLE_H
#define DBALLOC_PROBE_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "live.h"
#include "thread.h"

enum operation { ALLOCATING, FREEING, OPERATIONS };

/* One call that left the short way. `start`: ns, 0 if the call is not timed. `interval`: 0 if it is
 * not sampled. */
struct call {
    enum operation operation;
    size_t bytes;
    uint64_t interval;
    uint64_t start;
};

/* Whether this call leaves the short way; else it is accounted for. A call counts as one byte more
 * than it asks for, so that malloc(0) is seen too. */
static inline bool due(size_t bytes)
{
    struct thread *const mine = &thread;
    if (__builtin_expect(bytes >= mine->left || mine->ticks == 0, 0))
        return true;
    mine->left -= bytes + 1;
    mine->ticks--;
    return false;
}

static inline bool free_due(void)
{
    struct thread *const mine = &thread;
    if (__builtin_expect(mine->ticks == 0, 0))
        return true;
    mine->ticks--;
    return false;
}

/* All keep errno. */
void call_begin(struct call *call, enum operation operation, size_t bytes);
/* Takes a block out of the table of sampled ones; true, and `old`, if it was there. */
bool remove_sampled(const void *block, struct live_block *old);
/* Before a block is freed: a sampled one is alive no more. */
void call_free(struct call *call, void *block);
/* `frame`: of the function that the program called; `[0]` its caller's frame pointer, `[1]` the
 * return address. `block`: what an allocation gave, NULL if nothing or for a free. */
void call_end(const struct call *call, void *block, const uintptr_t *frame);

#endif
