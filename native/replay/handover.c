#include "handover.h"

#include "futex.h"
#include "memory.h"
#include "pacing.h"
#include "plan.h"

_Atomic uintptr_t *shared_slots;

/* The futex is the slot's lower half, in which SLOT_WAITED is and no block's address: those are
 * multiples of 8 at least. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && sizeof(uintptr_t) == 8,
        "the lower half of a slot is its first word");

/* A block that is just being made is there in less time than the kernel needs to wake a thread. */
enum { SPINS = 10 };

void handover_begin(void)
{
    shared_slots = memory_map_present(plan.header->shared, sizeof *shared_slots);
}

void handover_wake(struct runner *runner, uint32_t slot)
{
    struct interval interval = interval_begin();
    futex_wake(&shared_slots[slot], 1);
    interval_end(interval, runner);
}

static uintptr_t spin(uint32_t slot)
{
    uintptr_t block = SLOT_EMPTY;
    for (int i = 0; i < SPINS && block == SLOT_EMPTY; i++) {
#if defined __x86_64__
        __builtin_ia32_pause();
#elif defined __aarch64__
        /* As pause waits: yield does not, on processors with one thread a core. */
        __asm__ volatile("isb" : : : "memory");
#endif
        block = atomic_load_explicit(&shared_slots[slot], memory_order_acquire);
    }
    return block;
}

uintptr_t handover_wait(struct runner *runner, uint32_t slot)
{
    struct interval interval = interval_begin();
    uintptr_t block = spin(slot);
    pacing_begin_waiting();
    while (block <= SLOT_WAITED) {
        if (block == SLOT_EMPTY &&
                !atomic_compare_exchange_strong_explicit(&shared_slots[slot], &block, SLOT_WAITED,
                        memory_order_acq_rel, memory_order_acquire))
            continue;
        futex_wait(&shared_slots[slot], (uint32_t)SLOT_WAITED);
        block = atomic_load_explicit(&shared_slots[slot], memory_order_acquire);
    }
    pacing_end_waiting();
    interval_end_waiting(interval, runner, WAIT_HANDOVER);
    return block;
}
