/* Talking to one client in bounded time: a line, and an answer that it may read or not. */
#ifndef DBALLOC_PROBE_CLIENT_H
#define DBALLOC_PROBE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "descriptors.h"

enum { LONGEST_LINE = 64 };

/* deadline: for all of it, ns of CLOCK_MONOTONIC. */
struct client {
    struct descriptor descriptor;
    bool welcome; /* root, or the process's own user */
    uint64_t deadline;
};

/* `descriptor`: a socket that does not block. */
void client_begin(struct client *client, struct descriptor descriptor);

/* One line without its end; false if it is too long, or does not come in time. */
bool client_read_line(struct client *client, char line[LONGEST_LINE]);

/* False if it has gone, or does not read. */
bool client_send(struct client *client, const void *bytes, size_t length);

#endif
