/* What a preload says of itself to the parts that all preloads share, and what it knows of its
 * process. */
#ifndef DBALLOC_PRELOAD_PRELOAD_H
#define DBALLOC_PRELOAD_PRELOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client.h"

struct preload {
    pid_t owner;    /* the process that it was loaded into, or the child that took its place */
    uint64_t began; /* ns, CLOCK_MONOTONIC */
    char directory[4096]; /* of the socket */
};

extern struct preload preload;

/* Every preload defines these. */

/* In messages, and the name of its memory in /proc/PID/maps. */
extern const char preload_name[];
/* Of the thread that answers requests, 15 characters at most. */
extern const char preload_thread_name[];

/* Says that what this thread allocates from now on is not the program's, or is again; returns what
 * held before. */
bool preload_set_busy(bool busy);

/* As preload_set_busy, of what the C library allocates in this thread for a thread of ours. It may be
 * freed by any thread of the program's, later: a preload that has to know of every block it hears of
 * does nothing here. */
bool preload_hide_creation(bool hidden);

/* Whether it does more than forward calls in this process. */
bool preload_is_active(void);

/* Hears of a block that was handed out before the next allocator was known. */
void preload_early_block(const void *block);

/* Answers a request, which is one line. */
void preload_obey(struct client *client, const char *line);

/* Hears that the process ends, or that a thread of it wants that: maybe more than once. */
void preload_finish(void);

/* Hears that the process answers requests from now on: it will not detach any more. Called once, in
 * the thread that answers. */
void preload_settled(void);

#endif
