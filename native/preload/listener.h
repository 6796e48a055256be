/* The thread that answers requests to a preload over its socket: DIRECTORY/PID.sock. */
#ifndef DBALLOC_PRELOAD_LISTENER_H
#define DBALLOC_PRELOAD_LISTENER_H

#include <stdbool.h>

#include "descriptors.h"

/* Has the thread started after a moment, unless the program forks before that. */
void listener_begin(void);

/* Called now and then: starts it once the program is running, whatever it has forked. */
void listener_consider(bool is_first_thread);

/* Starts it now. */
void listener_start(void);

/* Whether it was started. */
bool listener_started(void);

/* Answers the client behind a socket, which stays open. */
void listener_serve(struct descriptor descriptor);

/* Says that the program has forked, and so may be about to detach; and that this is the child. */
void listener_in_parent(void);
void listener_in_child(void);

/* Removes the socket. */
void listener_end(void);

#endif
