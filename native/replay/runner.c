#include "runner.h"

#include <stddef.h>
#include <stdlib.h>

#include "clocks.h"
#include "handover.h"
#include "memory.h"
#include "options.h"
#include "pacing.h"
#include "plan.h"
#include "threads.h"
#include "touch.h"

/* C23's; not every malloc has them. C++'s operator delete with a size is not called instead: what
 * malloc gave is not for it, and some mallocs check that. */
extern void free_sized(void *block, size_t size) __attribute__((weak));
extern void free_aligned_sized(void *block, size_t alignment, size_t size) __attribute__((weak));

struct runner *runners;

/* The operation of a record, from 0. */
static inline unsigned operation_of(unsigned kind)
{
    return kind - RECORD_MALLOC;
}

void runners_begin(void)
{
    uint64_t count = plan.header->threads;
    runners = memory_map_present(count, sizeof *runners);
    void **slots = memory_map_present(plan.slots, sizeof *slots);
    for (uint64_t i = 0; i < count; i++) {
        runners[i].records = plan.records + plan.threads[i].first;
        runners[i].slots = slots;
        runners[i].epoch = -1;
        runners[i].countdown = 1;
        runners[i].random = (uint32_t)i * 2654435761u + 1; /* never 0 */
        slots += plan.threads[i].slots;
    }
}

int64_t runners_live(void)
{
    int64_t live = 0;
    for (uint64_t i = 0; i < plan.header->threads; i++)
        live += atomic_load_explicit(&runners[i].live, memory_order_relaxed);
    return live;
}

struct interval interval_begin(void)
{
    uint64_t cpu = clock_cpu();
    return (struct interval){.began = clock_now(), .cpu = cpu};
}

/* CPU since the interval began, the readings of the CPU clock included. Each is a system call, of
 * which a half is outside of what it measures: of two, the cost of one. What one costs here is
 * measured here, for just after a wait it is more than elsewhere: 0.7 us, not 0.5. */
static uint64_t cpu_since(struct interval interval)
{
    uint64_t first = clock_cpu();
    uint64_t last = clock_cpu();
    return last - interval.cpu + (last - first);
}

void interval_end(struct interval interval, struct runner *runner)
{
    runner->cpu_outside += cpu_since(interval);
}

void interval_end_waiting(struct interval interval, struct runner *runner, enum wait_kind kind)
{
    uint64_t ended = clock_now();
    uint64_t cpu = cpu_since(interval);
    runner->waits[kind].count++;
    runner->waits[kind].nanoseconds += ended - interval.began;
    runner->waits[kind].cpu += cpu;
    runner->cpu_outside += cpu;
}

/* Calls until the next one that is timed: at random, so that no pattern of the trace is in step
 * with it; sample_every on average. xorshift32 (Marsaglia 2003). */
static uint32_t draw_countdown(struct runner *runner)
{
    uint32_t random = runner->random;
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    runner->random = random;
    return 1 + random % (2 * options.sample_every - 1);
}

static inline void *call_allocate(unsigned kind, unsigned power, void *from, uint64_t size)
{
    void *block = NULL;
    switch (kind) {
    case RECORD_MALLOC:
        return malloc(size);
    case RECORD_CALLOC:
        return calloc(1, size);
    case RECORD_REALLOC:
        /* What a realloc to nothing does differs, and the trace's returned a block. */
        return realloc(from, size > 0 ? size : 1);
    default:
        /* No smaller alignment may be asked for (posix_memalign(3)). */
        if (posix_memalign(&block, (size_t)1 << (power > 3 ? power : 3), size) != 0)
            return NULL;
        return block;
    }
}

static inline void call_free(unsigned kind, unsigned power, void *block, uint64_t size)
{
    if (kind == RECORD_FREE_SIZED) {
        if (power > 0 && free_aligned_sized) {
            free_aligned_sized(block, (size_t)1 << power, size);
            return;
        }
        if (power == 0 && free_sized) {
            free_sized(block, size);
            return;
        }
    }
    free(block);
}

static __attribute__((noinline)) void *allocate_timed(
        struct runner *runner, const struct plan_record *record, void *from)
{
    unsigned kind = record_kind(record);
    uint64_t size = record_size(record);
    uint64_t began = clock_now();
    void *block = call_allocate(kind, record_alignment(record), from, size);
    uint64_t ended = clock_now();
    latency_add(operation_of(kind), size_class_of(size), ended - began);
    runner->countdown = draw_countdown(runner);
    return block;
}

static __attribute__((noinline)) void free_timed(
        struct runner *runner, const struct plan_record *record, void *block)
{
    unsigned kind = record_kind(record);
    uint64_t size = record_size(record);
    uint64_t began = clock_now();
    call_free(kind, record_alignment(record), block, size);
    uint64_t ended = clock_now();
    latency_add(operation_of(kind), size_class_of(size), ended - began);
    runner->countdown = draw_countdown(runner);
}

/* A block that malloc did not give. It may give none for no bytes (malloc(3)). */
static __attribute__((noinline)) void *note_failure(struct runner *runner, uint64_t size)
{
    if (size > 0 && runner->failed++ == 0)
        runner->failed_size = size;
    return (void *)BLOCK_NONE;
}

static inline bool is_block(const void *block)
{
    return (uintptr_t)block > BLOCK_NONE;
}

static inline void count_call(
        struct runner *runner, const struct plan_record *record, int64_t change)
{
    runner->calls[operation_of(record_kind(record))][size_class_of(record_size(record))]++;
    int64_t live = atomic_load_explicit(&runner->live, memory_order_relaxed);
    atomic_store_explicit(&runner->live, live + change, memory_order_relaxed);
}

static inline void *take_block(struct runner *runner, const struct plan_record *record)
{
    uint32_t slot = record_number(record);
    return record_is_shared(record) ? handover_take(runner, slot) : runner->slots[slot];
}

static inline void touch_new(const struct plan_record *record, void *block, uint64_t begin)
{
    uint64_t size = record_size(record);
    if (options.touch == TOUCH_ALL ||
            (options.touch == TOUCH_RECORDED && !record_has_pattern(record))) {
        touch_all(block, begin, size);
    } else if (options.touch == TOUCH_FIRST && size > 0) {
        touch_first(block, size);
    }
}

/* Allocate the record's block, and its pattern's pages; `from` is what a realloc is given. */
static inline void run_allocation(
        struct runner *runner, const struct plan_record *record, void *from, uint64_t from_size)
{
    uint64_t size = record_size(record);
    void *block = NULL;
    if (__builtin_expect(--runner->countdown != 0, 1)) {
        block = call_allocate(record_kind(record), record_alignment(record), from, size);
    } else {
        block = allocate_timed(runner, record, from);
    }
    if (__builtin_expect(block == NULL, 0)) {
        if (from && size > 0)
            free(from); /* realloc has left it; the trace's block is gone */
        block = note_failure(runner, size);
    } else {
        touch_new(record, block, from_size);
        if (record_has_pattern(record) && options.touch == TOUCH_RECORDED)
            touch_pattern(block, size, record_number(record + 1));
    }
    if (record_is_shared(record)) {
        handover_give(runner, record_number(record), block);
    } else {
        runner->slots[record_number(record)] = block;
    }
    count_call(runner, record, (int64_t)size);
}

static inline void run_free(struct runner *runner, const struct plan_record *record)
{
    void *block = take_block(runner, record);
    if (!is_block(block)) {
        (void)0;
    } else if (__builtin_expect(--runner->countdown != 0, 1)) {
        call_free(record_kind(record), record_alignment(record), block, record_size(record));
    } else {
        free_timed(runner, record, block);
    }
    count_call(runner, record, -(int64_t)record_size(record));
}

/* The block of a FROM goes to the REALLOC behind it. */
static inline void run_realloc(struct runner *runner, const struct plan_record *from)
{
    void *block = take_block(runner, from);
    run_allocation(runner, from + 1, is_block(block) ? block : NULL, record_size(from));
    int64_t live = atomic_load_explicit(&runner->live, memory_order_relaxed);
    atomic_store_explicit(&runner->live, live - (int64_t)record_size(from), memory_order_relaxed);
}

static void create_thread(struct runner *runner, uint32_t number)
{
    struct interval interval = interval_begin();
    threads_create(number);
    interval_end(interval, runner);
}

void runner_run(struct runner *runner)
{
    const bool timed = options.speed > 0;
    for (const struct plan_record *record = runner->records;; record++) {
        unsigned kind = record_kind(record);
        if (timed && kind != RECORD_TICK && kind != RECORD_TOUCH)
            pacing_wait_for(runner, runner->epoch_ns + record_offset(record));
        switch (kind) {
        case RECORD_MALLOC:
        case RECORD_CALLOC:
        case RECORD_ALIGNED:
        case RECORD_REALLOC:
            run_allocation(runner, record, NULL, 0);
            break;
        case RECORD_FREE:
        case RECORD_FREE_SIZED:
            run_free(runner, record);
            break;
        case RECORD_FROM:
            run_realloc(runner, record++);
            break;
        case RECORD_TICK:
            pacing_enter(runner, record_number(record));
            break;
        case RECORD_CREATE:
            create_thread(runner, record_number(record));
            break;
        case RECORD_TOUCH: /* was done with its block */
            break;
        default:
            pacing_leave(runner);
            return;
        }
    }
}
