/* Keeps threads together in the trace's time: none enters an epoch before all have left those that
 * are more than --ahead before it; in timed mode each event has its moment.
 *
 * The floor is the first epoch in which a thread still has records to run. Who leaves an epoch last
 * moves it on. */
#ifndef DBALLOC_REPLAY_PACING_H
#define DBALLOC_REPLAY_PACING_H

#include <stdatomic.h>
#include <stdint.h>

#include "runner.h"

/* When the replay began, by clock_now(). */
extern uint64_t pacing_began;

void pacing_begin(void);
/* The replay begins now, in the first epoch that has any records. */
void pacing_start(void);
void pacing_enter(struct runner *runner, uint32_t epoch);
/* Leave the epoch that it is in, if it is in any. */
void pacing_leave(struct runner *runner);
/* Timed mode: sleep until the moment of the trace's time. */
void pacing_wait_for(struct runner *runner, uint64_t time);

uint32_t pacing_floor(void);
/* By place of an epoch: bytes that were allocated in it less those freed, once it is below the
 * floor. */
int64_t pacing_live_change(uint32_t place);

/* Around waiting for another thread: if all that are alive wait, they wait forever. */
void pacing_begin_waiting(void);
void pacing_end_waiting(void);
/* A number that stays the same as long as nobody stops waiting. */
uint64_t pacing_waits_ended(void);
uint32_t pacing_waiting(void);

#endif
