/* Blocks that another thread frees: one slot each, in which the pointer says that the block is
 * there. */
#ifndef DBALLOC_REPLAY_HANDOVER_H
#define DBALLOC_REPLAY_HANDOVER_H

#include <stdatomic.h>
#include <stdint.h>

#include "runner.h"

/* What no block is at: a slot that is empty, one that is waited for, a block that malloc did not
 * give. */
#define SLOT_EMPTY ((uintptr_t)0)
#define SLOT_WAITED ((uintptr_t)1)
#define BLOCK_NONE ((uintptr_t)2)

extern _Atomic uintptr_t *shared_slots;

void handover_begin(void);
/* A thread waits for the block: wake it. */
void handover_wake(struct runner *runner, uint32_t slot);
/* Wait until the block is there. */
uintptr_t handover_wait(struct runner *runner, uint32_t slot);

static inline void handover_give(struct runner *runner, uint32_t slot, void *block)
{
    if (atomic_exchange_explicit(&shared_slots[slot], (uintptr_t)block, memory_order_acq_rel) !=
            SLOT_EMPTY)
        handover_wake(runner, slot);
}

static inline void *handover_take(struct runner *runner, uint32_t slot)
{
    uintptr_t block = atomic_load_explicit(&shared_slots[slot], memory_order_acquire);
    if (block <= SLOT_WAITED)
        block = handover_wait(runner, slot);
    return (void *)block;
}

#endif
