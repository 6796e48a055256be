/* The socket that takes requests to the probe: DIRECTORY/PID.sock. */
#ifndef DBALLOC_PROBE_CONTROL_H
#define DBALLOC_PROBE_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "descriptors.h"
#include "thread.h"

/* The least and the largest sampling interval that may be requested, bytes. */
static const uint64_t LEAST_INTERVAL = 1U << 10, MOST_INTERVAL = (uint64_t)1 << 40;

/* Called now and then: starts the thread that answers requests, once the program is running. */
void control_consider(const struct thread *mine);

/* Answers the client behind a socket, which stays open. */
void control_serve(struct descriptor descriptor);

/* Whether it was started. */
bool control_started(void);

/* Removes the socket. */
void control_end(void);

#endif
