/* The plan: mapped, and checked from its first byte to its last before anything of it is done. */
#ifndef DBALLOC_REPLAY_PLAN_H
#define DBALLOC_REPLAY_PLAN_H

#include <stdatomic.h>
#include <stdint.h>

#include "plan_layout.h"

struct plan {
    const struct plan_header *header;
    const struct plan_thread *threads;
    const struct plan_record *records;
    const struct plan_pattern *patterns;
    const struct plan_run *runs;
    const struct plan_mark *marks;
    /* What the check finds out: how many threads have records in each epoch; the slots of all
     * threads together; a bound of the bytes alive at once: those at the end of an epoch, and how
     * far each thread rises above them within the next. */
    _Atomic uint32_t *pending;
    uint64_t slots;
    int64_t peak_live;
};

extern struct plan plan;

/* Map the file. Refuses what is no plan. */
void plan_open(const char *path);
/* Check every number of a plan in memory against the others. Refuses the first that is wrong. */
void plan_check(const void *memory, uint64_t bytes);
/* Refuse what needs more than the options allow. */
void plan_check_limits(void);

#endif
