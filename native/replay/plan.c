#include "plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../error_text.h"
#include "memory.h"
#include "options.h"
#include "report.h"

struct plan plan;

/* What is known of the threads while their records are looked at. */
struct check {
    uint64_t *own;          /* by slot: the block's tag, 0: it is free */
    uint64_t *shared;       /* by shared slot: the block's tag */
    unsigned char *seen;    /* by shared slot: SEEN_… */
    unsigned char *created; /* by thread */
    uint32_t *creator;      /* by thread */
    int64_t *live;          /* by place: bytes allocated less those freed in the epoch */
    int64_t *rise;          /* by place: the sum of how far each thread's live bytes rise in it */
    uint64_t created_threads;
    uint64_t records; /* of the threads before */
};

#define SEEN_ALLOCATED 1
#define SEEN_FREED 2

void plan_open(const char *path)
{
    int file = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0)
        refuse("plan %.200s: %s", path, error_text(errno));
    uint64_t bytes = (uint64_t)status.st_size;
    if (!S_ISREG(status.st_mode) || bytes < sizeof *plan.header)
        refuse("plan %.200s: it is too short to be one", path);
    void *memory = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (memory == MAP_FAILED)
        fail(errno, "cannot map plan %.200s", path);
    (void)close(file);
    plan_check(memory, bytes);
}

/* The beginning of a section, behind the one before it. */
static const void *take_section(
        const unsigned char *memory, uint64_t *place, uint64_t count, uint64_t size)
{
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > plan.header->bytes - *place)
        refuse("plan: it ends before its sections do");
    const void *section = memory + *place;
    *place += bytes;
    return section;
}

static void take_sections(const unsigned char *memory, uint64_t bytes)
{
    const struct plan_header *header = (const void *)memory;
    plan.header = header;
    if (memcmp(header->magic, PLAN_MAGIC, sizeof header->magic) != 0)
        refuse("plan: it is none");
    if (header->version != PLAN_VERSION) {
        refuse("plan: version %llu; this engine reads version %d",
                (unsigned long long)header->version, PLAN_VERSION);
    }
    if (header->bytes != bytes) {
        refuse("plan: it says that it has %llu bytes, and has %llu",
                (unsigned long long)header->bytes, (unsigned long long)bytes);
    }
    if (header->threads == 0 || header->threads > UINT32_MAX || header->epochs == 0 ||
            header->epochs > MOST_EPOCHS || header->epoch_ns == 0 ||
            header->epoch_ns > MOST_EPOCH_NS || header->shared > header->records ||
            header->page_size < 512 || header->page_size > (1 << 30))
        refuse("plan: its header has a number that cannot be");
    uint64_t place = sizeof *header;
    plan.threads = take_section(memory, &place, header->threads, sizeof *plan.threads);
    plan.records = take_section(memory, &place, header->records, sizeof *plan.records);
    plan.patterns = take_section(memory, &place, header->patterns, sizeof *plan.patterns);
    plan.runs = take_section(memory, &place, header->runs, sizeof *plan.runs);
    plan.marks = take_section(memory, &place, header->marks, sizeof *plan.marks);
    if (place != bytes)
        refuse("plan: bytes behind its sections");
}

static void check_patterns(void)
{
    const struct plan_header *header = plan.header;
    for (uint64_t i = 0; i < header->patterns; i++) {
        const struct plan_pattern *pattern = &plan.patterns[i];
        if (pattern->first > header->runs || pattern->runs > header->runs - pattern->first)
            refuse("plan: pattern %llu has runs that are not there", (unsigned long long)i);
    }
    for (uint64_t i = 0; i < header->marks; i++) {
        if (plan.marks[i].time / header->epoch_ns >= header->epochs ||
                (i > 0 && plan.marks[i].time < plan.marks[i - 1].time))
            refuse("plan: mark %llu is not where it should be", (unsigned long long)i);
    }
}

static _Noreturn void refuse_record(uint64_t thread, uint64_t place, const char *what)
{
    refuse("plan: thread %llu, record %llu: %s", (unsigned long long)thread,
            (unsigned long long)place, what);
}

/* Size and alignment together, never 0. */
static uint64_t tag_of(const struct plan_record *record)
{
    return 1 + (record_size(record) | (uint64_t)record_alignment(record) << SIZE_BITS);
}

static const char *check_allocation(
        struct check *check, const struct plan_thread *thread, const struct plan_record *record)
{
    uint32_t slot = record_number(record);
    if (record_alignment(record) > MOST_ALIGNMENT)
        return "an alignment of more than 1 GiB";
    if (record_is_shared(record)) {
        if (slot >= plan.header->shared)
            return "a shared slot that is not there";
        if (check->seen[slot] & SEEN_ALLOCATED)
            return "a shared slot that was allocated before";
        check->seen[slot] |= SEEN_ALLOCATED;
        if ((check->seen[slot] & SEEN_FREED) && check->shared[slot] != tag_of(record))
            return "another size than that of its free";
        check->shared[slot] = tag_of(record);
        return NULL;
    }
    if (slot >= thread->slots)
        return "a slot that is not there";
    if (check->own[slot] != 0)
        return "a slot that is in use";
    check->own[slot] = tag_of(record);
    return NULL;
}

static const char *check_free(
        struct check *check, const struct plan_thread *thread, const struct plan_record *record)
{
    uint32_t slot = record_number(record);
    if (record_is_shared(record)) {
        if (slot >= plan.header->shared)
            return "a shared slot that is not there";
        if (check->seen[slot] & SEEN_FREED)
            return "a shared slot that was freed before";
        check->seen[slot] |= SEEN_FREED;
        if ((check->seen[slot] & SEEN_ALLOCATED) && check->shared[slot] != tag_of(record))
            return "another size than that of its allocation";
        check->shared[slot] = tag_of(record);
        return NULL;
    }
    if (slot >= thread->slots)
        return "a slot that is not there";
    if (check->own[slot] != tag_of(record))
        return "a slot that is not in use, or of another size";
    check->own[slot] = 0;
    return NULL;
}

static const char *check_birth(struct check *check, uint64_t parent, uint32_t child)
{
    if (child >= plan.header->threads)
        return "it creates a thread that is not there";
    if (check->created[child] || plan.threads[child].flags & THREAD_ROOT)
        return "it creates a thread that is there already";
    check->created[child] = 1;
    check->creator[child] = (uint32_t)parent;
    check->created_threads++;
    return NULL;
}

/* Where the check is in one thread's records. */
struct position {
    const struct plan_thread *thread;
    uint64_t number; /* of the thread */
    int64_t epoch;   /* -1: in none yet */
    uint32_t place;  /* of the epoch */
    int64_t live;    /* bytes allocated less those freed in this epoch */
    int64_t highest; /* of live in this epoch */
    unsigned before; /* kind of the record before; 0: none */
    int pattern;     /* that record is to be followed by its pattern */
};

/* Count bytes that the thread allocates, or frees if they are negative. */
static const char *count_bytes(struct position *at, int64_t bytes)
{
    if (__builtin_add_overflow(at->live, bytes, &at->live))
        return "more bytes than can be counted";
    if (at->live > at->highest)
        at->highest = at->live;
    return NULL;
}

/* Add to the epoch what the thread did in it. */
static const char *close_epoch(struct check *check, struct position *at)
{
    if (at->epoch < 0)
        return NULL;
    int64_t *live = &check->live[at->place];
    int64_t *rise = &check->rise[at->place];
    if (__builtin_add_overflow(*live, at->live, live) ||
            __builtin_add_overflow(*rise, at->highest, rise))
        return "more bytes than can be counted";
    at->live = 0;
    at->highest = 0;
    return NULL;
}

static const char *check_tick(
        struct check *check, struct position *at, const struct plan_record *record)
{
    uint32_t epoch = record_number(record);
    const char *wrong = close_epoch(check, at);
    if (wrong)
        return wrong;
    if (epoch >= plan.header->epochs || (int64_t)epoch <= at->epoch)
        return "an epoch that is not there, or not later than the one before";
    at->epoch = epoch;
    at->place = plan_place(epoch);
    atomic_fetch_add_explicit(&plan.pending[at->place], 1, memory_order_relaxed);
    return NULL;
}

static const char *check_record(
        struct check *check, struct position *at, const struct plan_record *record)
{
    unsigned kind = record_kind(record);
    const char *wrong = NULL;
    if (at->before == RECORD_FROM && kind != RECORD_REALLOC)
        return "no realloc behind the block that it is given";
    if ((kind == RECORD_TOUCH) != at->pattern)
        return "a pattern without its block, or a block without its pattern";
    if (at->epoch < 0 && kind != RECORD_TICK)
        return "something before the first epoch";
    if (record_offset(record) >= plan.header->epoch_ns)
        return "a time behind its epoch";
    switch (kind) {
    case RECORD_MALLOC:
    case RECORD_CALLOC:
    case RECORD_ALIGNED:
    case RECORD_REALLOC:
        wrong = check_allocation(check, at->thread, record);
        if (!wrong)
            wrong = count_bytes(at, (int64_t)record_size(record));
        break;
    case RECORD_FREE:
    case RECORD_FREE_SIZED:
    case RECORD_FROM:
        wrong = check_free(check, at->thread, record);
        if (!wrong)
            wrong = count_bytes(at, -(int64_t)record_size(record));
        break;
    case RECORD_TOUCH:
        wrong = record_number(record) < plan.header->patterns ? NULL : "no such pattern";
        break;
    case RECORD_TICK:
        wrong = check_tick(check, at, record);
        break;
    case RECORD_CREATE:
        wrong = check_birth(check, at->number, record_number(record));
        break;
    default:
        wrong = "a record of an unknown kind, or an end before the end";
    }
    at->before = kind;
    at->pattern = kind >= RECORD_MALLOC && kind <= RECORD_REALLOC && record_has_pattern(record);
    return wrong;
}

static void check_thread(struct check *check, uint64_t number)
{
    const struct plan_thread *thread = &plan.threads[number];
    const struct plan_header *header = plan.header;
    if (thread->records == 0 || thread->first != check->records ||
            thread->records > header->records - thread->first || thread->slots > thread->records ||
            thread->slots > UINT32_MAX) {
        refuse("plan: thread %llu has records or slots that are not there",
                (unsigned long long)number);
    }
    const struct plan_record *record = plan.records + thread->first;
    uint64_t last = thread->records - 1;
    if (record_kind(&record[last]) != RECORD_END)
        refuse_record(number, last, "it is no end");
    check->own = memory_map(thread->slots, sizeof *check->own);
    struct position at = {.thread = thread, .number = number, .epoch = -1};
    for (uint64_t i = 0; i < last; i++) {
        const char *wrong = check_record(check, &at, &record[i]);
        if (wrong)
            refuse_record(number, i, wrong);
    }
    if (at.before == RECORD_FROM || at.pattern || at.epoch < 0 ||
            record_offset(&record[last]) >= header->epoch_ns)
        refuse_record(number, last, "an end in the middle");
    const char *wrong = close_epoch(check, &at);
    if (wrong)
        refuse_record(number, last, wrong);
    memory_unmap(check->own, thread->slots, sizeof *check->own);
    plan.slots += thread->slots;
    check->records += thread->records;
}

/* Every thread is a root, or descends from one. */
static void check_births(struct check *check)
{
    uint64_t roots = 0;
    for (uint64_t i = 0; i < plan.header->threads; i++) {
        bool root = plan.threads[i].flags & THREAD_ROOT;
        roots += root;
        if (plan.threads[i].flags & ~(uint64_t)(THREAD_ROOT | THREAD_STAYS))
            refuse("plan: thread %llu has unknown flags", (unsigned long long)i);
        if (root)
            check->created[i] = 2; /* descends from a root */
    }
    if (roots + check->created_threads != plan.header->threads)
        refuse("plan: a thread that nobody creates");
    for (uint64_t i = 0; i < plan.header->threads; i++) {
        uint64_t up = i;
        for (uint64_t steps = 0; check->created[up] != 2; steps++, up = check->creator[up]) {
            if (steps > plan.header->threads)
                refuse("plan: threads that create each other");
        }
        for (up = i; check->created[up] != 2; up = check->creator[up])
            check->created[up] = 2;
    }
}

static void check_shared(const struct check *check)
{
    for (uint64_t i = 0; i < plan.header->shared; i++) {
        if (check->seen[i] != (SEEN_ALLOCATED | SEEN_FREED))
            refuse("plan: shared slot %llu is not both allocated and freed", (unsigned long long)i);
    }
}

/* More than the bytes that are ever alive at once, where threads rise together within an epoch. */
static int64_t bound_peak(const struct check *check)
{
    int64_t live = 0;
    int64_t most = 0;
    for (uint32_t i = 0; i < plan.places; i++) {
        int64_t high = 0;
        if (__builtin_add_overflow(live, check->rise[i], &high) ||
                __builtin_add_overflow(live, check->live[i], &live))
            refuse("plan: more bytes than can be counted");
        most = high > most ? high : most;
    }
    return most;
}

/* Give every epoch that a record enters its place. */
static void find_places(void)
{
    const struct plan_header *header = plan.header;
    uint64_t words = (header->epochs + WORD_BITS - 1) / WORD_BITS;
    plan.entered = memory_map_present(words, sizeof *plan.entered);
    plan.entered_before = memory_map_present(words, sizeof *plan.entered_before);
    for (uint64_t i = 0; i < header->records; i++) {
        uint32_t epoch = record_number(&plan.records[i]);
        if (record_kind(&plan.records[i]) == RECORD_TICK && epoch < header->epochs)
            plan.entered[epoch / WORD_BITS] |= 1ull << (epoch % WORD_BITS);
    }
    plan.places = 0;
    for (uint64_t i = 0; i < words; i++) {
        plan.entered_before[i] = plan.places;
        plan.places += (uint32_t)__builtin_popcountll(plan.entered[i]);
    }
}

void plan_check(const void *memory, uint64_t bytes)
{
    take_sections(memory, bytes);
    const struct plan_header *header = plan.header;
    check_patterns();
    if (header->threads > options.threads) {
        refuse("the trace has %llu threads, and no more than %llu are allowed; take a stretch of "
               "it (dballoc trace cut)",
                (unsigned long long)header->threads, (unsigned long long)options.threads);
    }
    find_places();
    struct check check = {
            .shared = memory_map(header->shared, sizeof *check.shared),
            .seen = memory_map(header->shared, 1),
            .created = memory_map(header->threads, 1),
            .creator = memory_map(header->threads, sizeof *check.creator),
            .live = memory_map(plan.places, sizeof *check.live),
            .rise = memory_map(plan.places, sizeof *check.rise),
    };
    plan.pending = memory_map_present(plan.places, sizeof *plan.pending);
    plan.slots = 0;
    for (uint64_t i = 0; i < header->threads; i++)
        check_thread(&check, i);
    check_births(&check);
    check_shared(&check);
    plan.peak_live = bound_peak(&check);
    memory_unmap(check.shared, header->shared, sizeof *check.shared);
    memory_unmap(check.seen, header->shared, 1);
    memory_unmap(check.created, header->threads, 1);
    memory_unmap(check.creator, header->threads, sizeof *check.creator);
    memory_unmap(check.live, plan.places, sizeof *check.live);
    memory_unmap(check.rise, plan.places, sizeof *check.rise);
}

void plan_check_limits(void)
{
    if ((uint64_t)plan.peak_live > options.live_bytes) {
        refuse("the trace has up to %lld bytes alive at once, and no more than %llu are allowed; "
               "take a stretch of it (dballoc trace cut)",
                (long long)plan.peak_live, (unsigned long long)options.live_bytes);
    }
    double seconds = (double)plan.header->epochs * (double)plan.header->epoch_ns / 1e9;
    if (options.speed > 0 && seconds / options.speed + options.idle > options.seconds) {
        refuse("the replay would take %.0f seconds at that speed, and no more than %.0f are "
               "allowed; see --max-time",
                seconds / options.speed + options.idle, options.seconds);
    }
}
