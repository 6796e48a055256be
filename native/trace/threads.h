/* The threads that have recorded something: a slot for each, which outlives it, so that nothing has
 * to be done when a thread ends but to note when. */
#ifndef DBALLOC_TRACE_THREADS_H
#define DBALLOC_TRACE_THREADS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "buffers.h"

enum { SLOTS = 1 << 16, THREAD_NAME = 16 };
/* FREE_SLOT: of no thread; TAKEN: being filled in; IN_USE: of a thread that lives or lived. */
enum slot_state { FREE_SLOT, TAKEN, IN_USE };

/* Its thread writes all but `events` and `announced`, which are the writer's. */
struct slot {
    _Atomic uint32_t state;
    uint32_t number, tid, creator;
    uint64_t born;                    /* stamp of its creation, 0 where that was not seen */
    _Atomic uint64_t died;            /* stamp of its end, 0 before; calls may still follow */
    _Atomic(struct buffer *) current; /* NULL while it has none, or hands it over */
    _Atomic uint64_t dropped;
    uint64_t events;    /* in the file */
    uint64_t announced; /* the generation in which the file has its name */
    char name[THREAD_NAME];
};

/* Events that were lost by threads without a slot. */
extern _Atomic uint64_t threads_dropped;

/* False with errno if there is no memory for them. */
bool threads_begin(void);

/* A slot for the calling thread; NULL if there is none. */
struct slot *threads_take(uint32_t creator, uint64_t born);

/* Gives back the slot of a thread that has ended, for the writer. */
void threads_give_back(struct slot *slot);

/* Slots in use one after the other, from *cursor = 0 on; NULL at the end. */
struct slot *threads_next(uint32_t *cursor);

/* Sets its name to the calling thread's. */
void threads_set_name(struct slot *slot);

/* Counts lost events from 0 again, while nothing is recorded. */
void threads_forget_dropped(void);

/* Whether the thread of a slot has ended. */
bool threads_has_ended(const struct slot *slot);

/* In a child: of all threads, only the calling one is still there. */
void threads_in_child(struct slot *own);

#endif
