#include "touches.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "memory.h"
#include "preload.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

/* A block is in one of WINDOW entries from its hash on. Mappings of a process are few (65,530
 * usually), so ours are at most a small part of them. */
enum { ENTRIES = 1 << 12, WINDOW = 16, PIECE = 1024 };
static const uintptr_t CHANGING = 1;

static struct entry {
    _Atomic uintptr_t address; /* 0: free; CHANGING */
    struct touched_block block;
} entries[ENTRIES];

static uint32_t hash(uintptr_t address)
{
    return (uint32_t)((uint64_t)(address >> 12) * 0x9E3779B97F4A7C15U >> 40);
}

static size_t mapped(size_t size)
{
    const size_t page = memory_page_size();
    return (size + page - 1) / page * page;
}

/* xorshift64* (Vigna, 2014). */
static uint64_t draw(uint64_t *random)
{
    uint64_t x = *random != 0 ? *random : (uint64_t)(uintptr_t)random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *random = x;
    return x * 0x2545F4914F6CDD1DU >> 32;
}

static bool insert(uintptr_t address, const struct touched_block *block)
{
    for (uint32_t i = 0; i < WINDOW; i++) {
        struct entry *entry = &entries[(hash(address) + i) % ENTRIES];
        uintptr_t key = 0;
        if (!atomic_compare_exchange_strong_explicit(
                    &entry->address, &key, CHANGING, memory_order_acquire, memory_order_relaxed))
            continue;
        entry->block = *block;
        atomic_store_explicit(&entry->address, address, memory_order_release);
        return true;
    }
    return false;
}

static struct entry *find(const void *block)
{
    const uintptr_t address = (uintptr_t)block;
    if (address == 0)
        return NULL;
    for (uint32_t i = 0; i < WINDOW; i++) {
        struct entry *entry = &entries[(hash(address) + i) % ENTRIES];
        if (atomic_load_explicit(&entry->address, memory_order_acquire) == address)
            return entry;
    }
    return NULL;
}

void *touches_allocate(uint64_t *random, size_t size, uint32_t site, bool is_first)
{
    if (size > SIZE_MAX / 2 || (!is_first && draw(random) % TOUCHES_PERIOD != 0))
        return NULL;
    const int error = errno;
    const size_t bytes = mapped(size);
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
        errno = error;
        return NULL;
    }
    /* With huge pages, one touched byte would be 2 MiB of touched pages. */
    (void)madvise(block, bytes, MADV_NOHUGEPAGE);
    (void)prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, block, bytes, "dballoc trace: a block");
    const struct touched_block which = {.size = size, .site = site, .is_first = is_first};
    if (!insert((uintptr_t)block, &which)) {
        (void)munmap(block, bytes);
        block = NULL;
    }
    errno = error;
    return block;
}

bool touches_is(const void *block, struct touched_block *which)
{
    const struct entry *entry = find(block);
    if (entry == NULL)
        return false;
    *which = entry->block;
    return true;
}

bool touches_free(const void *block)
{
    struct entry *entry = find(block);
    if (entry == NULL)
        return false;
    const size_t bytes = mapped(entry->block.size);
    const int error = errno;
    /* Before it is unmapped: the kernel may give the next mapping the same address. */
    atomic_store_explicit(&entry->address, 0, memory_order_release);
    union {
        const void *read;
        void *base;
    } start = {.read = block};
    (void)munmap(start.base, bytes);
    errno = error;
    return true;
}

size_t touches_look(const void *block, size_t size, struct touched_run runs[TOUCHES_RUNS])
{
    unsigned char present[PIECE];
    const size_t page = memory_page_size();
    const size_t pages = (size + page - 1) / page;
    size_t count = 0;
    bool in_run = false;
    struct touched_run run = {0, 0};
    union {
        const void *read;
        char *base;
    } start = {.read = block};
    for (size_t at = 0; at < pages; at += PIECE) {
        const size_t piece = pages - at < PIECE ? pages - at : PIECE;
        if (mincore(start.base + at * page, piece * page, present) != 0)
            break; /* another thread has freed it: a mistake of the program's */
        for (size_t i = 0; i < piece; i++) {
            const bool touched = (present[i] & 1) != 0;
            if (!touched && in_run && count < TOUCHES_RUNS - 1) {
                runs[count++] = run;
                run = (struct touched_run){0, 0};
                in_run = false;
            }
            in_run = in_run || touched;
            run.touched += touched;
            run.untouched += !touched && !in_run;
        }
    }
    if (in_run)
        runs[count++] = run;
    return count;
}

const void *touches_next(uint32_t *cursor, struct touched_block *which)
{
    while (*cursor < ENTRIES) {
        const struct entry *entry = &entries[(*cursor)++];
        const uintptr_t address = atomic_load_explicit(&entry->address, memory_order_acquire);
        if (address > CHANGING) {
            *which = entry->block;
            union {
                uintptr_t number;
                const void *block;
            } start = {.number = address};
            return start.block;
        }
    }
    return NULL;
}

uint64_t touches_resident(void)
{
    uint64_t pages = 0;
    uint32_t cursor = 0;
    struct touched_block which;
    struct touched_run runs[TOUCHES_RUNS];
    for (const void *block = touches_next(&cursor, &which); block != NULL;
            block = touches_next(&cursor, &which)) {
        const size_t count = touches_look(block, which.size, runs);
        for (size_t i = 0; i < count; i++)
            pages += runs[i].touched;
    }
    return pages * memory_page_size();
}
