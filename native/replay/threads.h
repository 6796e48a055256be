/* A real thread for each recorded one, on stacks of our own: shared memory, so that they are not
 * among the anonymous memory of the process. What a malloc keeps in thread-local variables lies on
 * them, as it does on a server's stacks. */
#ifndef DBALLOC_REPLAY_THREADS_H
#define DBALLOC_REPLAY_THREADS_H

#include <pthread.h>
#include <stdint.h>

#include "runner.h"

void threads_begin(void);
/* A thread that is none of the recorded ones. It must not allocate. */
pthread_t threads_begin_helper(void *(*run)(void *));
/* Create the thread that runs a recorded one. */
void threads_create(uint32_t number);
/* Run a recorded thread in the calling one, which was not created for it. */
void threads_run_here(uint32_t number);
/* Wait until every recorded thread is at its end, and those that do not stay are gone. */
void threads_wait_for_all(void);
/* Those that are not at their end. */
uint32_t threads_alive(void);

#endif
