/* What runs one recorded thread. */
#ifndef DBALLOC_REPLAY_RUNNER_H
#define DBALLOC_REPLAY_RUNNER_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "latency.h"
#include "plan_layout.h"

/* Waiting is left out of all other figures: for blocks of other threads, and for the window. */
enum wait_kind { WAIT_HANDOVER, WAIT_WINDOW, WAIT_KINDS };

struct wait_figures {
    uint64_t count, nanoseconds, cpu;
};

struct runner {
    alignas(64) const struct plan_record *records;
    void **slots;
    _Atomic int64_t live; /* written by this thread alone */
    int64_t live_before;  /* when it entered its epoch */
    uint64_t epoch_ns;    /* beginning of its epoch */
    int64_t epoch;        /* -1: in none */
    uint32_t countdown;   /* calls until one is timed */
    uint32_t random;
    uint64_t failed, failed_size;
    uint64_t lateness;
    uint64_t cpu_outside; /* ns of CPU for what is no event: creating threads, waiting, pace */
    struct wait_figures waits[WAIT_KINDS];
    uint64_t cpu, minor_faults, major_faults; /* when it has ended */
    pthread_t thread;
    uint32_t stack;
    uint32_t place; /* of its epoch, in the plan */
    struct runner *next_ended;
    uint64_t calls[OPERATIONS][CLASSES];
};

/* By thread of the plan. */
extern struct runner *runners;

/* Make the runners and their slots. */
void runners_begin(void);
/* Run the records of a thread to its end. */
void runner_run(struct runner *runner);
/* Bytes allocated and not freed, by all threads now. */
int64_t runners_live(void);

/* Around what is not to be counted as CPU of the events; the second one also counts it as waiting.
 */
struct interval {
    uint64_t began, cpu;
};
struct interval interval_begin(void);
void interval_end(struct interval interval, struct runner *runner);
void interval_end_waiting(struct interval interval, struct runner *runner, enum wait_kind kind);

#endif
