/* Buckets of a cache line: seven addresses, and whether an eighth block had to go on to the next
 * bucket.
 *
 *   bucket  | key 0 | key 1 | … | key 6 | passed |
 *           a key: 0 free, 1 changing, else the block's address
 *   slot    | sequence | address … thread |
 *           one for each key; odd while it is written
 *
 * No key is ever a tombstone: one that is taken out is free again, and a search goes on to the next
 * bucket only where one was passed. A reader of the whole table takes a slot whose sequence is even
 * and the same before and after.
 */
#include "live.h"

#include <stddef.h>

#include "filter.h"
#include "memory.h"
#include "probe.h"

/* 229,376 slots: 112 GiB of live heap at one in 512 KiB; 11 MiB if all of it is touched. */
enum { BUCKETS = 1 << 15, KEYS = 7, MOST_PASSED = 16, CHANGING = 1 };

struct bucket {
    _Alignas(64) _Atomic uint64_t keys[KEYS];
    _Atomic uint64_t passed;
};

struct slot {
    _Atomic uint64_t sequence;
    _Atomic uint64_t words[sizeof(struct live_block) / sizeof(uint64_t)];
};

static struct bucket *buckets;
static struct slot *slots;

struct live_totals live_totals;

bool live_begin(void)
{
    buckets = memory_map(BUCKETS * sizeof *buckets);
    slots = memory_map((size_t)BUCKETS * KEYS * sizeof *slots);
    return buckets != NULL && slots != NULL;
}

static uint32_t first_bucket(uint64_t address)
{
    return (uint32_t)((address >> 4) * 0x9E3779B97F4A7C15U >> 49); /* 15 bits */
}

union words {
    struct live_block block;
    uint64_t words[sizeof(struct live_block) / sizeof(uint64_t)];
};

static void write_slot(struct slot *slot, const struct live_block *block)
{
    const union words from = {.block = *block};
    const uint64_t sequence = atomic_load_explicit(&slot->sequence, memory_order_relaxed);
    atomic_store_explicit(&slot->sequence, sequence + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (size_t i = 0; i < sizeof from.words / sizeof *from.words; i++)
        atomic_store_explicit(&slot->words[i], from.words[i], memory_order_relaxed);
    atomic_store_explicit(&slot->sequence, sequence + 2, memory_order_release);
}

static void read_slot(const struct slot *slot, struct live_block *block)
{
    union words to;
    for (size_t i = 0; i < sizeof to.words / sizeof *to.words; i++)
        to.words[i] = atomic_load_explicit(&slot->words[i], memory_order_relaxed);
    *block = to.block;
}

static void count(double bytes)
{
    add_double(&live_totals.bytes, bytes);
    const double now = atomic_load_explicit(&live_totals.bytes, memory_order_relaxed);
    double peak = atomic_load_explicit(&live_totals.peak, memory_order_relaxed);
    while (now > peak && !atomic_compare_exchange_weak_explicit(&live_totals.peak, &peak, now,
                                 memory_order_relaxed, memory_order_relaxed)) {
    }
}

void live_insert(const struct live_block *block)
{
    struct live_block stale;
    if (filter_hit((const void *)(uintptr_t)block->address) &&
            live_remove((uintptr_t)block->address, &stale))
        atomic_fetch_add_explicit(&live_totals.overwritten, 1, memory_order_relaxed);
    const uint32_t first = first_bucket(block->address);
    for (uint32_t passed = 0; passed < MOST_PASSED; passed++) {
        const uint32_t at = (first + passed) % BUCKETS;
        for (uint32_t i = 0; i < KEYS; i++) {
            uint64_t key = atomic_load_explicit(&buckets[at].keys[i], memory_order_relaxed);
            if (key != 0 || !atomic_compare_exchange_strong_explicit(&buckets[at].keys[i], &key,
                                    CHANGING, memory_order_acquire, memory_order_relaxed))
                continue;
            write_slot(&slots[at * KEYS + i], block);
            atomic_store_explicit(&buckets[at].keys[i], block->address, memory_order_release);
            filter_add((const void *)(uintptr_t)block->address);
            count(block->share);
            return;
        }
        atomic_store_explicit(&buckets[at].passed, 1, memory_order_release);
    }
    atomic_fetch_add_explicit(&live_totals.lost, 1, memory_order_relaxed);
}

bool live_remove(uintptr_t address, struct live_block *block)
{
    const uint32_t first = first_bucket(address);
    for (uint32_t passed = 0; passed < MOST_PASSED; passed++) {
        const uint32_t at = (first + passed) % BUCKETS;
        for (uint32_t i = 0; i < KEYS; i++) {
            uint64_t key = atomic_load_explicit(&buckets[at].keys[i], memory_order_acquire);
            /* The exchange fails where a program frees a block in two threads at once. */
            if (key != address ||
                    !atomic_compare_exchange_strong_explicit(&buckets[at].keys[i], &key, CHANGING,
                            memory_order_acquire, memory_order_relaxed))
                continue;
            read_slot(&slots[at * KEYS + i], block);
            atomic_store_explicit(&buckets[at].keys[i], 0, memory_order_release);
            filter_remove((const void *)address);
            count(-block->share);
            return true;
        }
        if (atomic_load_explicit(&buckets[at].passed, memory_order_acquire) == 0)
            return false;
    }
    return false;
}

bool live_next(uint32_t *cursor, struct live_block *block)
{
    for (; *cursor < BUCKETS * KEYS; (*cursor)++) {
        const _Atomic uint64_t *key = &buckets[*cursor / KEYS].keys[*cursor % KEYS];
        const uint64_t before = atomic_load_explicit(key, memory_order_acquire);
        if (before <= CHANGING)
            continue;
        const struct slot *slot = &slots[*cursor];
        const uint64_t sequence = atomic_load_explicit(&slot->sequence, memory_order_acquire);
        read_slot(slot, block);
        atomic_thread_fence(memory_order_acquire);
        /* One that is just leaving or coming is not there yet, or not any more. */
        if (sequence % 2 != 0 ||
                sequence != atomic_load_explicit(&slot->sequence, memory_order_relaxed) ||
                before != atomic_load_explicit(key, memory_order_relaxed) ||
                block->address != before)
            continue;
        (*cursor)++;
        return true;
    }
    return false;
}
