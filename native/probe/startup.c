/* Loading, and forked children.
 *
 * DBALLOC_PROBE=INTERVAL:DIRECTORY in the environment switches the probe on: a sample every
 * INTERVAL bytes (0: idle, until asked over the socket), and the socket in DIRECTORY. Without it
 * the probe only forwards.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "latency.h"
#include "live.h"
#include "message.h"
#include "probe.h"
#include "stacks.h"
#include "unwind.h"

struct probe probe;

static const uint64_t USUAL_INTERVAL = 512U << 10;

/* A child of a process that already answers requests is of no interest, and has no thread that
 * could answer. A child that was forked earlier, as by a server that detaches, has its parent's
 * heap and tables, and takes its place. */
static void in_child(void)
{
    if (control_started()) {
        atomic_store(&probe.state, INERT);
        return;
    }
    probe.owner = getpid();
}

/* False if it is malformed. */
static bool read_request(const char *text)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long interval = strtoull(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != ':' || end[1] != '/' ||
            strlen(end + 1) >= sizeof probe.directory || interval > MOST_INTERVAL ||
            (interval != 0 && interval < LEAST_INTERVAL))
        return false;
    probe.interval = interval;
    probe.first_interval = interval != 0 ? interval : USUAL_INTERVAL;
    memcpy(probe.directory, end + 1, strlen(end + 1) + 1);
    return true;
}

__attribute__((constructor)) static void begin(void)
{
    const char *request =
            getenv("DBALLOC_PROBE"); /* NOLINT(concurrency-mt-unsafe): before there are threads */
    int state = INERT;
    if (request != NULL && !read_request(request)) {
        message_write("DBALLOC_PROBE is not INTERVAL:/DIRECTORY", "it does nothing");
    } else if (request != NULL && !(live_begin() && stacks_begin() && latency_begin())) {
        message_write("no memory for its tables", "it does nothing");
    } else if (request != NULL && pthread_atfork(NULL, NULL, in_child) == 0) {
        state = RUNNING;
    }
    if (state == RUNNING)
        unwind_choose();
    probe.owner = getpid();
    probe.began = clock_ns(CLOCK_MONOTONIC);
    atomic_store(&probe.reset, probe.began);
    atomic_store(&probe.reset_cpu, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    atomic_store_explicit(&probe.state, state, memory_order_release);
}

__attribute__((destructor)) static void end(void)
{
    control_end();
}
