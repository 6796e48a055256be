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

#include "at_exit.h"
#include "clock.h"
#include "control.h"
#include "filter.h"
#include "latency.h"
#include "listener.h"
#include "live.h"
#include "message.h"
#include "preload.h"
#include "probe.h"
#include "stacks.h"
#include "thread.h"
#include "unwind.h"

struct probe probe;

const char preload_name[] = "dballoc probe";
const char preload_thread_name[] = "dballoc-probe";

bool preload_set_busy(bool busy)
{
    const bool before = thread.busy;
    thread.busy = busy;
    return before;
}

bool preload_hide_creation(bool hidden)
{
    return preload_set_busy(hidden);
}

bool preload_is_active(void)
{
    return atomic_load(&probe.state) == RUNNING;
}

/* The filter lets free and realloc look twice at it. */
void preload_early_block(const void *block)
{
    filter_pin(block);
}

void preload_settled(void)
{
}

static const uint64_t USUAL_INTERVAL = 512U << 10;

/* A child of a process that already answers requests is of no interest, and has no thread that
 * could answer. A child that was forked earlier, as by a server that detaches, has its parent's
 * heap and tables, and takes its place. */
static void in_child(void)
{
    listener_in_child();
    if (listener_started()) {
        atomic_store(&probe.state, INERT);
        return;
    }
    preload.owner = getpid();
}

/* False if it is malformed. */
static bool read_request(const char *text)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long interval = strtoull(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != ':' || end[1] != '/' ||
            strlen(end + 1) >= sizeof preload.directory || interval > MOST_INTERVAL ||
            (interval != 0 && interval < LEAST_INTERVAL))
        return false;
    probe.interval = interval;
    probe.first_interval = interval != 0 ? interval : USUAL_INTERVAL;
    memcpy(preload.directory, end + 1, strlen(end + 1) + 1);
    return true;
}

__attribute__((constructor)) static void begin(void)
{
    const char *request =
            getenv("DBALLOC_PROBE"); /* NOLINT(concurrency-mt-unsafe): before there are threads */
    int state = INERT;
    if (request != NULL && !read_request(request)) {
        message_write("DBALLOC_PROBE is not INTERVAL:/DIRECTORY", "nothing is sampled");
    } else if (request != NULL && !(live_begin() && stacks_begin() && latency_begin())) {
        message_write("the system has no memory for its tables", "nothing is sampled");
    } else if (request != NULL && pthread_atfork(NULL, listener_in_parent, in_child) == 0) {
        state = RUNNING;
    }
    if (state == RUNNING) {
        unwind_choose();
        at_exit_begin();
    }
    preload.owner = getpid();
    preload.began = clock_ns(CLOCK_MONOTONIC);
    atomic_store(&probe.reset, preload.began);
    atomic_store(&probe.reset_cpu, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    atomic_store_explicit(&probe.state, state, memory_order_release);
    if (state == RUNNING)
        listener_begin();
}

void preload_finish(void)
{
    const bool busy = preload_set_busy(true);
    at_exit_write();
    (void)preload_set_busy(busy);
}
