#include "touches.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "memory.h"
#include "preload.h"
#include "stamp.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

/* A block is in one of WINDOW entries from its hash on. Mappings of a process are few (65,530
 * usually), so ours are at most a small part of them. */
enum { ENTRIES = 1 << 12, WINDOW = 16, PIECE = 1024 };
static const uintptr_t CHANGING = 1;

/* Who frees a block owns its entry. Another thread reads it as a seqlock: what it has read counts if
 * address and version are the same afterwards. */
static struct entry {
    _Atomic uintptr_t address; /* 0: free; CHANGING */
    _Atomic uint32_t version;
    _Atomic uint32_t site;
    _Atomic size_t size;
    _Atomic unsigned rarity;
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

/* Where a thread's draws begin. The address alone is that of an earlier thread whose stack it has:
 * both would draw the same. */
static uint64_t seed(const uint64_t *random)
{
    const uint64_t number = (uint64_t)(uintptr_t)random ^ stamp_now() * 0x9E3779B97F4A7C15U;
    return number != 0 ? number : 1;
}

/* xorshift64* (Vigna, 2014). */
static uint64_t draw(uint64_t *random)
{
    uint64_t x = *random != 0 ? *random : seed(random);
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *random = x;
    return x * 0x2545F4914F6CDD1DU >> 32;
}

static struct touched_block read_entry(const struct entry *entry)
{
    return (struct touched_block){
            .size = atomic_load_explicit(&entry->size, memory_order_relaxed),
            .site = atomic_load_explicit(&entry->site, memory_order_relaxed),
            .rarity = atomic_load_explicit(&entry->rarity, memory_order_relaxed),
    };
}

/* Its address is CHANGING. */
static void fill_entry(struct entry *entry, const struct touched_block *block)
{
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&entry->size, block->size, memory_order_relaxed);
    atomic_store_explicit(&entry->site, block->site, memory_order_relaxed);
    atomic_store_explicit(&entry->rarity, block->rarity, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&entry->version, 1, memory_order_relaxed);
}

static bool insert(uintptr_t address, const struct touched_block *block)
{
    for (uint32_t i = 0; i < WINDOW; i++) {
        struct entry *entry = &entries[(hash(address) + i) % ENTRIES];
        uintptr_t key = 0;
        if (!atomic_compare_exchange_strong_explicit(
                    &entry->address, &key, CHANGING, memory_order_acquire, memory_order_relaxed))
            continue;
        fill_entry(entry, block);
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

/* Whole pages, of which the first is at a multiple of `alignment`; NULL if there are none. */
static void *map_aligned(size_t bytes, size_t alignment)
{
    const size_t page = memory_page_size();
    const size_t more = alignment > page ? alignment - page : 0;
    char *base =
            mmap(NULL, bytes + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    if (more == 0)
        return base;
    const size_t before = -(uintptr_t)base & (alignment - 1);
    if (before != 0)
        (void)munmap(base, before);
    if (before != more)
        (void)munmap(base + before + bytes, more - before);
    return base + before;
}

void *touches_allocate(
        uint64_t *random, size_t size, size_t alignment, uint32_t site, unsigned rarity)
{
    if (size > SIZE_MAX / 4 || alignment > SIZE_MAX / 4 ||
            (draw(random) & ((1ULL << 2 * rarity) - 1)) != 0)
        return NULL;
    const int error = errno;
    const size_t bytes = mapped(size);
    void *block = map_aligned(bytes, alignment);
    if (block == NULL) {
        errno = error;
        return NULL;
    }
    /* With huge pages, one touched byte would be 2 MiB of touched pages. */
    (void)madvise(block, bytes, MADV_NOHUGEPAGE);
    (void)prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, block, bytes, "dballoc trace: a block");
    const struct touched_block which = {.size = size, .site = site, .rarity = rarity};
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
    *which = read_entry(entry);
    return true;
}

bool touches_free(const void *block)
{
    struct entry *entry = find(block);
    if (entry == NULL)
        return false;
    const size_t bytes = mapped(read_entry(entry).size);
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
    const int error = errno; /* free leaves it as it is */
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
    errno = error;
    return count;
}

bool touches_next(uint32_t *cursor, struct touched_place *place)
{
    while (*cursor < ENTRIES) {
        place->entry = (*cursor)++;
        const struct entry *entry = &entries[place->entry];
        const uintptr_t address = atomic_load_explicit(&entry->address, memory_order_acquire);
        if (address <= CHANGING)
            continue;
        union {
            uintptr_t number;
            const void *block;
        } start = {.number = address};
        place->block = start.block;
        place->version = atomic_load_explicit(&entry->version, memory_order_relaxed);
        place->which = read_entry(entry);
        if (touches_is_still(place))
            return true;
    }
    return false;
}

/* The address first: one that is there again has a new version before. */
bool touches_is_still(const struct touched_place *place)
{
    const struct entry *entry = &entries[place->entry];
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&entry->address, memory_order_acquire) == (uintptr_t)place->block &&
           atomic_load_explicit(&entry->version, memory_order_relaxed) == place->version;
}

struct touched_bytes touches_measure(void)
{
    struct touched_bytes bytes = {0};
    uint32_t cursor = 0;
    struct touched_place place;
    struct touched_run runs[TOUCHES_RUNS];
    while (touches_next(&cursor, &place)) {
        const size_t count = touches_look(place.block, place.which.size, runs);
        uint64_t touched = 0;
        for (size_t i = 0; i < count; i++)
            touched += runs[i].touched;
        if (!touches_is_still(&place))
            continue;
        bytes.asked += place.which.size;
        bytes.touched += touched * memory_page_size();
    }
    return bytes;
}
