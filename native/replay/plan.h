/* The plan: mapped, and checked from its first byte to its last before anything of it is done. */
#ifndef DBALLOC_REPLAY_PLAN_H
#define DBALLOC_REPLAY_PLAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan_layout.h"

struct plan {
    const struct plan_header *header;
    const struct plan_thread *threads;
    const struct plan_record *records;
    const struct plan_pattern *patterns;
    const struct plan_run *runs;
    const struct plan_mark *marks;
    /* The epochs that any thread enters: a bit for each epoch, how many there are before each word
     * of bits, and in all. What is kept of epochs has a place for each of these alone: a trace of
     * days in which little happens has tens of millions of others. */
    uint64_t *entered;
    uint32_t *entered_before;
    uint32_t places;
    /* What the check finds out: how many threads have records in the epoch of each place; the slots
     * of all threads together; a bound of the bytes alive at once: those at the end of an epoch, and
     * how far each thread rises above them within the next. */
    _Atomic uint32_t *pending;
    uint64_t slots;
    int64_t peak_live;
};

extern struct plan plan;

enum { WORD_BITS = 64 };

/* Whether any thread has records in an epoch. */
static inline bool plan_is_entered(uint64_t epoch)
{
    return (plan.entered[epoch / WORD_BITS] >> (epoch % WORD_BITS) & 1) != 0;
}

/* The place of an epoch that is entered; they are in order. */
static inline uint32_t plan_place(uint64_t epoch)
{
    uint64_t word = epoch / WORD_BITS;
    uint64_t before = plan.entered[word] & ((1ull << (epoch % WORD_BITS)) - 1);
    return plan.entered_before[word] + (uint32_t)__builtin_popcountll(before);
}

/* Map the file. Refuses what is no plan. */
void plan_open(const char *path);
/* Check every number of a plan in memory against the others. Refuses the first that is wrong. */
void plan_check(const void *memory, uint64_t bytes);
/* Refuse what needs more than the options allow. */
void plan_check_limits(void);

#endif
