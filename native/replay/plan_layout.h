/* The layout of a plan, which src/dballoc/trace/replay/plan_layout.py writes. All numbers are
 * little-endian and 64 bits wide, so that everything is aligned.
 *
 *     header | threads | records | patterns | runs | marks
 *
 * A record is two words:
 *
 *     what:    bits  0–31  slot, or the number of an epoch, a thread, a pattern
 *              bits 32–35  enum record_kind
 *              bit  36     the slot is one of the shared ones, else of the thread's own
 *              bit  37     a TOUCH record with this block's pattern follows
 *              bits 40–45  alignment, as a power of two; 0: as malloc
 *     amount:  bits  0–39  size of the block in bytes, of a free too
 *              bits 40–63  ns since the epoch began
 *
 * An epoch is a stretch of the trace's time of header.epoch_ns. A thread's records of an epoch come
 * behind a TICK with its number. A REALLOC is given the block of the FROM just before it, or
 * nothing. The last record of each thread is END, and there is none other.
 */
#ifndef DBALLOC_REPLAY_PLAN_LAYOUT_H
#define DBALLOC_REPLAY_PLAN_LAYOUT_H

#include <stdint.h>

#define PLAN_MAGIC "dbreplay"
#define PLAN_VERSION 1

struct plan_header {
    char magic[8];
    uint64_t version;
    uint64_t bytes; /* of the file */
    uint64_t threads;
    uint64_t records;
    uint64_t shared; /* slots of blocks that another thread frees */
    uint64_t epochs;
    uint64_t epoch_ns;
    uint64_t patterns;
    uint64_t runs;
    uint64_t marks;
    uint64_t page_size; /* of the runs */
    uint64_t reserved[4];
};

struct plan_thread {
    uint64_t first; /* of its records */
    uint64_t records;
    uint64_t slots; /* of its own */
    uint64_t flags;
};

/* Nobody creates it: it is there when the replay begins. */
#define THREAD_ROOT 1u
/* It is still alive when the replay ends. */
#define THREAD_STAYS 2u

enum record_kind {
    RECORD_MALLOC = 1,
    RECORD_CALLOC = 2,
    RECORD_ALIGNED = 3,
    RECORD_REALLOC = 4,
    RECORD_FREE = 5,
    RECORD_FREE_SIZED = 6,
    RECORD_FROM = 7,    /* takes the block that the REALLOC behind it is given */
    RECORD_TOUCH = 8,   /* writes pages of the block just allocated, by a pattern */
    RECORD_TICK = 9,    /* the thread enters an epoch */
    RECORD_CREATE = 10, /* begins a thread */
    RECORD_END = 11,
};

struct plan_record {
    uint64_t what;
    uint64_t amount;
};

struct plan_pattern {
    uint64_t first; /* of its runs */
    uint64_t runs;
};

struct plan_run {
    uint64_t first; /* page of the block */
    uint64_t pages;
};

struct plan_mark {
    uint64_t time; /* ns of the trace */
};

#define SIZE_BITS 40
#define SIZE_MASK ((1ull << SIZE_BITS) - 1)
#define MOST_ALIGNMENT 30
#define MOST_EPOCHS (1ull << 26)
#define MOST_EPOCH_NS (1ull << 24)

static inline uint32_t record_number(const struct plan_record *record)
{
    return (uint32_t)record->what;
}

static inline unsigned record_kind(const struct plan_record *record)
{
    return (unsigned)(record->what >> 32) & 15u;
}

static inline int record_is_shared(const struct plan_record *record)
{
    return (int)(record->what >> 36) & 1;
}

static inline int record_has_pattern(const struct plan_record *record)
{
    return (int)(record->what >> 37) & 1;
}

static inline unsigned record_alignment(const struct plan_record *record)
{
    return (unsigned)(record->what >> 40) & 63u;
}

static inline uint64_t record_size(const struct plan_record *record)
{
    return record->amount & SIZE_MASK;
}

static inline uint64_t record_offset(const struct plan_record *record)
{
    return record->amount >> SIZE_BITS;
}

#endif
