/* Loading, and forked children.
 *
 * DBALLOC_TRACE=WHEN:LIMIT:DIRECTORY in the environment switches the recorder on. WHEN is start, for
 * every event from the first one on, or idle, until asked over the socket; LIMIT is what a file may
 * take, in bytes; the socket and the files are in DIRECTORY. Without it the recorder only forwards.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buffers.h"
#include "clock.h"
#include "control.h"
#include "listener.h"
#include "message.h"
#include "next_allocator.h"
#include "preload.h"
#include "recorder.h"
#include "threads.h"
#include "writer.h"

const char preload_name[] = "dballoc trace";
const char preload_thread_name[] = "dballoc-trace";

bool preload_set_busy(bool busy)
{
    const bool before = (thread.busy & BUSY_OWN) != 0;
    thread.busy = (uint8_t)(busy ? thread.busy | BUSY_OWN : thread.busy & ~BUSY_OWN);
    return before;
}

bool preload_hide_creation(bool hidden)
{
    return hidden;
}

bool preload_is_active(void)
{
    return atomic_load(&recording.state) == RUNNING;
}

/* Every call compares its block with the early ones' place. */
void preload_early_block(const void *block)
{
    (void)block;
}

void preload_settled(void)
{
    writer_begin();
}

/* A child of a process that already writes is of no interest, and has no thread that could write. A
 * child that was forked earlier, as by a server that detaches, has its parent's heap and buffers, and
 * takes its place. */
static void in_child(void)
{
    listener_in_child();
    if (listener_started()) {
        atomic_store(&recording.generation, 0);
        atomic_store(&recording.state, INERT);
        return;
    }
    preload.owner = getpid();
    threads_in_child(thread.slot);
}

/* False if it is malformed. */
static bool read_request(const char *text, bool *is_idle)
{
    static const char START[] = "start:", IDLE[] = "idle:";
    *is_idle = strncmp(text, IDLE, sizeof IDLE - 1) == 0;
    if (!*is_idle && strncmp(text, START, sizeof START - 1) != 0)
        return false;
    text += *is_idle ? sizeof IDLE - 1 : sizeof START - 1;
    char *end = NULL;
    errno = 0;
    const unsigned long long limit = strtoull(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != ':' || end[1] != '/' ||
            strlen(end + 1) >= sizeof preload.directory || limit < LEAST_LIMIT ||
            limit > MOST_LIMIT)
        return false;
    atomic_store(&session_usual_limit, limit);
    atomic_store(&session_next_limit, limit);
    memcpy(preload.directory, end + 1, strlen(end + 1) + 1);
    return true;
}

static int read_environment(bool *is_idle)
{
    const char *request =
            getenv("DBALLOC_TRACE"); /* NOLINT(concurrency-mt-unsafe): before there are threads */
    if (request == NULL)
        return INERT;
    if (!read_request(request, is_idle)) {
        message_write("DBALLOC_TRACE is not WHEN:LIMIT:/DIRECTORY", "it does nothing");
        return INERT;
    }
    if (!buffers_begin() || !threads_begin()) {
        message_write("no memory for its buffers", "it does nothing");
        return INERT;
    }
    return pthread_atfork(NULL, listener_in_parent, in_child) == 0 ? RUNNING : INERT;
}

/* At the first call of any function, while the loader starts the program in its one thread. What is
 * called meanwhile is ours. */
bool recorder_begin(void)
{
    int state = NOT_YET;
    if (next_is_looking()) /* what is handed out now is early */
        return false;
    if (!atomic_compare_exchange_strong(&recording.state, &state, STARTING))
        return false;
    const int error = errno;
    bool is_idle = false;
    preload.owner = getpid();
    preload.began = clock_ns(CLOCK_MONOTONIC);
    stamp_begin();
    recorder_look_at_processor();
    state = read_environment(&is_idle);
    next.free(NULL); /* now the next allocator is known: no block that is recorded is early */
    if (state == RUNNING && !is_idle) {
        session_from_start();
        atomic_store(&recording.generation, 1);
    }
    atomic_store(&recording.state, state);
    errno = error;
    return state == RUNNING && !is_idle;
}

__attribute__((constructor)) static void begin(void)
{
    (void)recorder_begin();
    if (preload_is_active())
        listener_begin();
}

void preload_finish(void)
{
    writer_finish();
}
