/* Open addressing over an arena that grows by a counter; an entry is filled before its place is
 * published, and stays. */
#include "stacks.h"

#include <stddef.h>
#include <string.h>

#include "memory.h"

/* The arena is 64 MiB of address space: 160,000 stacks of 36 frames, more than the index has room
 * for. */
enum { INDEX = 1 << 17, MOST_PROBES = 128, UNIT = 8 };
static const uint64_t ARENA = 64U << 20;

static _Atomic uint32_t *places; /* in units of 8 bytes; 0: none */
static unsigned char *arena;
static _Atomic uint64_t used;
static struct stack *full; /* the entry for all that has no room; its place is 1 unit */

_Atomic uint64_t stacks_lost;

bool stacks_begin(void)
{
    places = memory_map(INDEX * sizeof *places);
    arena = memory_map(ARENA);
    if (places == NULL || arena == NULL)
        return false;
    full = (struct stack *)(void *)(arena + UNIT);
    full->truncated = 1;
    atomic_store(&places[0], 1);
    atomic_store(&used, UNIT + sizeof *full);
    return true;
}

static uint64_t hash_of(const uintptr_t *pcs, uint32_t depth, bool truncated)
{
    uint64_t hash = truncated ? 0x5851F42D4C957F2DU : 0x14057B7EF767814FU;
    for (uint32_t i = 0; i < depth; i++) {
        hash = (hash ^ pcs[i]) * 0x9E3779B97F4A7C15U;
        hash ^= hash >> 32;
    }
    return hash;
}

static struct stack *at(uint32_t place)
{
    return (struct stack *)(void *)(arena + (size_t)place * UNIT);
}

static bool same(const struct stack *stack, uint64_t hash, const uintptr_t *pcs, uint32_t depth,
        bool truncated)
{
    return stack->hash == hash && stack->depth == depth && stack->truncated == truncated &&
           memcmp(stack->pcs, pcs, depth * sizeof *pcs) == 0;
}

/* 0 if the arena is full. */
static uint32_t keep(uint64_t hash, const uintptr_t *pcs, uint32_t depth, bool truncated)
{
    const uint64_t size = sizeof(struct stack) + depth * sizeof *pcs;
    const uint64_t offset = atomic_fetch_add_explicit(&used, size, memory_order_relaxed);
    if (offset + size > ARENA)
        return 0;
    struct stack *stack = (struct stack *)(void *)(arena + offset);
    stack->hash = hash;
    stack->depth = depth;
    stack->truncated = truncated;
    memcpy(stack->pcs, pcs, depth * sizeof *pcs);
    return (uint32_t)(offset / UNIT);
}

struct stack *stacks_of(const uintptr_t *pcs, uint32_t depth, bool truncated)
{
    const uint64_t hash = hash_of(pcs, depth, truncated);
    uint32_t mine = 0;
    for (uint32_t probe = 0; probe < MOST_PROBES; probe++) {
        _Atomic uint32_t *slot = &places[(hash + probe) % INDEX];
        uint32_t place = atomic_load_explicit(slot, memory_order_acquire);
        if (place == 0) {
            if (mine == 0 && (mine = keep(hash, pcs, depth, truncated)) == 0)
                break;
            if (atomic_compare_exchange_strong_explicit(
                        slot, &place, mine, memory_order_release, memory_order_acquire))
                return at(mine);
        }
        /* Another thread may just have kept the same stack; ours, if there is one, stays unused. */
        if (same(at(place), hash, pcs, depth, truncated))
            return at(place);
    }
    atomic_fetch_add_explicit(&stacks_lost, 1, memory_order_relaxed);
    return full;
}

uint32_t stacks_id(const struct stack *stack)
{
    return (uint32_t)(((const unsigned char *)stack - arena) / UNIT);
}

struct stack *stacks_next(uint32_t *cursor)
{
    while (*cursor < INDEX) {
        const uint32_t place = atomic_load_explicit(&places[(*cursor)++], memory_order_acquire);
        if (place != 0)
            return at(place);
    }
    return NULL;
}

void stacks_reset(void)
{
    uint32_t cursor = 0;
    for (struct stack *stack = stacks_next(&cursor); stack != NULL; stack = stacks_next(&cursor)) {
        atomic_store_explicit(&stack->objects, 0, memory_order_relaxed);
        atomic_store_explicit(&stack->bytes, 0, memory_order_relaxed);
        atomic_store_explicit(&stack->variance, 0, memory_order_relaxed);
        atomic_store_explicit(&stack->samples, 0, memory_order_relaxed);
        for (struct stack_times *t = stack->times; t < stack->times + OPERATIONS; t++) {
            atomic_store_explicit(&t->calls, 0, memory_order_relaxed);
            atomic_store_explicit(&t->nanoseconds, 0, memory_order_relaxed);
            atomic_store_explicit(&t->stalls, 0, memory_order_relaxed);
            atomic_store_explicit(&t->stalled, 0, memory_order_relaxed);
        }
    }
}
