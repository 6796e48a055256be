/* A stack of numbered things that many threads push to and pop from without a lock: the numbers of
 * the next ones are in an array. A tag that changes with every change tells a top from the same one
 * that came back meanwhile. */
#ifndef DBALLOC_TRACE_TAGGED_STACK_H
#define DBALLOC_TRACE_TAGGED_STACK_H

#include <stdatomic.h>
#include <stdint.h>

enum { STACK_EMPTY = 0 }; /* numbers begin with 1 */

struct tagged_stack {
    _Atomic uint64_t top; /* tag, number */
};

static inline void stack_push(struct tagged_stack *stack, _Atomic uint32_t *next, uint32_t number)
{
    uint64_t top = atomic_load_explicit(&stack->top, memory_order_relaxed);
    uint64_t pushed = 0;
    do {
        atomic_store_explicit(&next[number], (uint32_t)top, memory_order_relaxed);
        pushed = ((top >> 32) + 1) << 32 | number;
    } while (!atomic_compare_exchange_weak_explicit(
            &stack->top, &top, pushed, memory_order_release, memory_order_relaxed));
}

/* STACK_EMPTY if there is none. */
static inline uint32_t stack_pop(struct tagged_stack *stack, _Atomic uint32_t *next)
{
    uint64_t top = atomic_load_explicit(&stack->top, memory_order_acquire);
    uint64_t popped = 0;
    do {
        if ((uint32_t)top == STACK_EMPTY)
            return STACK_EMPTY;
        const uint32_t below = atomic_load_explicit(&next[(uint32_t)top], memory_order_relaxed);
        popped = ((top >> 32) + 1) << 32 | below;
    } while (!atomic_compare_exchange_weak_explicit(
            &stack->top, &top, popped, memory_order_acquire, memory_order_acquire));
    return (uint32_t)top;
}

#endif
