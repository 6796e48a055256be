/* The socket by which the probe is asked: DIRECTORY/PID.sock. */
#ifndef DBALLOC_PROBE_CONTROL_H
#define DBALLOC_PROBE_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "thread.h"

/* The least and the most that may be asked for, bytes. */
static const uint64_t LEAST_INTERVAL = 1U << 10, MOST_INTERVAL = (uint64_t)1 << 40;

/* Called now and then: starts the thread that answers, once, when the program is under way. */
void control_consider(const struct thread *mine);

/* Whether it was. */
bool control_started(void);

/* Removes the socket. */
void control_end(void);

#endif
