/* Serves one client in bounded time: reads a line, and writes an answer, whether it reads it or
 * not. */
#ifndef DBALLOC_PRELOAD_CLIENT_H
#define DBALLOC_PRELOAD_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "descriptors.h"

enum { LONGEST_LINE = 1024 };

/* deadline: for all of it, ns of CLOCK_MONOTONIC. */
struct client {
    struct descriptor descriptor;
    bool welcome; /* root, or the process's own user */
    uint64_t deadline;
};

/* `descriptor`: a socket that does not block. */
void client_begin(struct client *client, struct descriptor descriptor);

/* Reads one line without its end; false if it is too long, or does not come in time. */
bool client_read_line(struct client *client, char line[LONGEST_LINE]);

/* False if the client has gone, or does not read. */
bool client_send(struct client *client, const void *bytes, size_t length);

/* Sends text. One that cannot be had is lost to a client that has gone. */
void client_answer(struct client *client, const char *text);

/* As client_answer, at once: what the client may wait for is over. */
void client_refuse(struct client *client, const char *text);

#endif
