/* Requests to the recorder, one line each:
 *
 *   status                    lines "name value", and the end
 *   memory                    the same, of its memory: bytes
 *   start, stop               a recording, in a file of its own
 *   limit BYTES               what the next recording's file may take; those after it have what the
 *                             program was started with
 *   mark NAME [KEY=VALUE …]   a moment of the recording, with figures in bytes that were measured from
 *                             outside
 *
 * Answers begin with "ok" or "error"; an error is one line.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffers.h"
#include "chunk.h"
#include "client.h"
#include "clock.h"
#include "control.h"
#include "preload.h"
#include "recorder.h"
#include "touches.h"
#include "writer.h"

static void send_status(struct client *client)
{
    char text[8192];
    /* A recording goes on until its end is written. Asked first: what has ended also says why. */
    const bool is_on =
            atomic_load(&recording.generation) % 2 != 0 || atomic_load(&session_status.is_open);
    const char *ended_by = atomic_load(&session_status.ended_by);
    const uint64_t end =
            ended_by != NULL ? (uint64_t)session_status.ended : clock_ns(CLOCK_MONOTONIC);
    const uint64_t began = atomic_load(&session_status.began);
    (void)snprintf(text, sizeof text,
            "ok\nversion %d\npid %d\nrecording %d\nevents %" PRIu64 "\ndropped %" PRIu64
            "\nbytes %" PRIu64 "\nthreads %" PRIu64 "\nmilliseconds %" PRIu64 "\nlimit %" PRIu64
            "\nended_by %s\nfile %s\n",
            CHUNK_VERSION, (int)preload.owner, is_on, (uint64_t)session_status.events,
            (uint64_t)session_status.dropped, (uint64_t)session_status.bytes,
            (uint64_t)session_status.threads, began != 0 ? (end - began) / 1000000 : 0,
            is_on ? (uint64_t)session_status.limit : (uint64_t)session_next_limit,
            ended_by != NULL ? ended_by : "nothing", session_path());
    client_answer(client, text);
}

/* `blocks`: what those of the program's blocks have touched that are mappings of ours; `sizes`: what
 * was asked for them. */
static void send_memory(struct client *client)
{
    char text[128];
    const struct touched_bytes blocks = touches_measure();
    (void)snprintf(text, sizeof text,
            "ok\nbuffers %" PRIu64 "\nblocks %" PRIu64 "\nsizes %" PRIu64 "\n",
            (uint64_t)(BUFFERS - buffers_untouched()) * BUFFER_SIZE, blocks.touched, blocks.asked);
    client_answer(client, text);
}

static void ask(struct client *client, enum writer_request request, const char *line)
{
    char why[LONGEST_WHY];
    char text[LONGEST_WHY + 16];
    if (writer_ask(request, line, why)) {
        client_answer(client, "ok\n");
        return;
    }
    (void)snprintf(text, sizeof text, "error %s\n", why);
    client_answer(client, text);
}

static void set_limit(struct client *client, const char *text)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long bytes = strtoull(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || bytes < LEAST_LIMIT ||
            bytes > MOST_LIMIT) {
        client_answer(client, "error limit: 2^20 to 2^50 bytes\n");
        return;
    }
    atomic_store(&session_next_limit, bytes);
    client_answer(client, "ok\n");
}

static bool is_printable(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text < ' ' || *text == 127)
            return false;
    }
    return true;
}

void preload_obey(struct client *client, const char *line)
{
    static const char LIMIT[] = "limit ", MARK[] = "mark ";
    if (strcmp(line, "status") == 0) {
        send_status(client);
    } else if (strcmp(line, "memory") == 0) {
        send_memory(client);
    } else if (strcmp(line, "start") == 0) {
        ask(client, WRITER_START, "");
    } else if (strcmp(line, "stop") == 0) {
        ask(client, WRITER_STOP, "");
    } else if (strncmp(line, LIMIT, sizeof LIMIT - 1) == 0) {
        set_limit(client, line + sizeof LIMIT - 1);
    } else if (strncmp(line, MARK, sizeof MARK - 1) == 0 && line[sizeof MARK - 1] != '\0' &&
               is_printable(line)) {
        ask(client, WRITER_MARK, line + sizeof MARK - 1);
    } else {
        client_answer(client,
                "error unknown: status, memory, start, stop, limit BYTES, mark NAME KEY=VALUE\n");
    }
}
