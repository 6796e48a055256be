/* Requests to the probe, one line each:
 *
 *   status               lines "name value", and the end
 *   snapshot             see snapshot.c
 *   interval BYTES       sample one in so many bytes from now on; 0: idle
 *   start, stop          the interval that the probe was loaded with (or 512 KiB), 0
 *   reset                sets the sums (allocated, time in malloc) to 0; what is alive stays
 *
 * Answers other than snapshots begin with "ok" or "error"; an error is one line.
 */
#include "control.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "clock.h"
#include "latency.h"
#include "live.h"
#include "preload.h"
#include "probe.h"
#include "snapshot.h"
#include "stacks.h"
#include "unwind.h"

static void status(struct client *client)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
            "ok\nversion %d\npid %d\ninterval %" PRIu64
            "\nlive %.0f\npeak %.0f\nlost_blocks %" PRIu64 "\nlost_stacks %" PRIu64
            "\noverwritten %" PRIu64 "\nby_pointers %" PRIu64 "\nby_cfi %" PRIu64
            "\nincomplete %" PRIu64 "\n",
            SNAPSHOT_VERSION, (int)preload.owner, (uint64_t)probe.interval,
            (double)live_totals.bytes, (double)live_totals.peak, (uint64_t)live_totals.lost,
            (uint64_t)stacks_lost, (uint64_t)live_totals.overwritten,
            (uint64_t)unwind_counts.by_pointers, (uint64_t)unwind_counts.by_cfi,
            (uint64_t)unwind_counts.incomplete);
    client_answer(client, text);
}

static void set_interval(struct client *client, const char *text)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long bytes = strtoull(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' ||
            (bytes != 0 && (bytes < LEAST_INTERVAL || bytes > MOST_INTERVAL))) {
        client_answer(client, "error interval: give 0, or 1024 to 2^40 bytes\n");
        return;
    }
    atomic_store(&probe.interval, bytes);
    client_answer(client, "ok\n");
}

void preload_obey(struct client *client, const char *line)
{
    static const char INTERVAL[] = "interval ";
    if (strcmp(line, "status") == 0) {
        status(client);
    } else if (strcmp(line, "snapshot") == 0) {
        snapshot_send(client);
    } else if (strncmp(line, INTERVAL, sizeof INTERVAL - 1) == 0) {
        set_interval(client, line + sizeof INTERVAL - 1);
    } else if (strcmp(line, "start") == 0) {
        atomic_store(&probe.interval, probe.first_interval);
        client_answer(client, "ok\n");
    } else if (strcmp(line, "stop") == 0) {
        atomic_store(&probe.interval, 0);
        client_answer(client, "ok\n");
    } else if (strcmp(line, "reset") == 0) {
        stacks_reset();
        latency_reset();
        atomic_store(&probe.reset, clock_ns(CLOCK_MONOTONIC));
        atomic_store(&probe.reset_cpu, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
        client_answer(client, "ok\n");
    } else {
        client_answer(
                client, "error unknown: status, snapshot, interval BYTES, start, stop, reset\n");
    }
}
