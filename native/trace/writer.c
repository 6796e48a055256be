/* A recording begins and ends by its generation (see recorder.h). What a call has under way when it
 * ends is waited for by GRACE: the calls themselves do not tell. */
#include "writer.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "descriptors.h"
#include "message.h"
#include "own_thread.h"
#include "preload.h"
#include "recorder.h"

/* How often it looks for full buffers, and for all that threads have; what is waited for calls under
 * way, and for an answer: ns. */
static const uint64_t LOOK = 50000000, FLUSH = 1000000000, GRACE = 10000000, PATIENCE = 20000000000,
                      NAP = 500000;

/* One request at a time, from NOTHING over FILLED_IN, ASKED, OBEYED and ANSWERED to NOTHING. Who
 * asks ends FILLED_IN and ANSWERED, the writer ASKED and OBEYED. If that takes too long, who asks
 * takes it back to NOTHING where the writer has not begun with it, or else makes it ABANDONED,
 * which the writer ends. */
enum { NOTHING, FILLED_IN, ASKED, OBEYED, ABANDONED, ANSWERED };
static struct {
    _Atomic uint32_t state;
    enum writer_request request;
    bool done;
    char line[1024];
    char why[LONGEST_WHY];
} mailbox;

static _Atomic bool claimed;  /* somebody writes, or has */
static _Atomic bool starving; /* a thread waits for a buffer */
static _Atomic uint32_t bell; /* changes when there is something to do */

static void ring(void)
{
    atomic_fetch_add(&bell, 1);
    (void)syscall(SYS_futex, &bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void writer_wake(void)
{
    if (!atomic_exchange(&starving, true))
        ring();
}

static bool is_recording(void)
{
    return atomic_load(&recording.generation) % 2 != 0;
}

/* Whether something is recorded, or has been and its file has no end yet. */
static bool is_under_way(void)
{
    return is_recording() || atomic_load(&session_status.is_open);
}

/* Ends the recording that is on, if one is. */
static void end(const char *reason)
{
    if (is_recording())
        atomic_fetch_add(&recording.generation, 1);
    if (!atomic_load(&session_status.is_open))
        return;
    clock_sleep(GRACE);
    if (!session_drain(true) && reason != SESSION_DISK)
        reason = session_failure();
    session_close(reason);
}

/* Makes the file of a recording; without one there is none. */
static bool open_file(char why[LONGEST_WHY])
{
    if (session_open(why))
        return true;
    if (is_recording())
        atomic_fetch_add(&recording.generation, 1);
    message_write(why, "nothing is recorded; the program's user must be able to write there");
    return false;
}

static bool start(char why[LONGEST_WHY])
{
    if (is_recording()) {
        (void)snprintf(why, LONGEST_WHY, "it is recording already");
        return false;
    }
    if (!open_file(why))
        return false;
    atomic_fetch_add(&recording.generation, 1);
    return true;
}

static bool obey(enum writer_request request, const char *line, char why[LONGEST_WHY])
{
    if (request == WRITER_START)
        return start(why);
    if (!atomic_load(&session_status.is_open)) {
        (void)snprintf(why, LONGEST_WHY, "it is not recording");
        return false;
    }
    if (request == WRITER_MARK) {
        (void)snprintf(why, LONGEST_WHY, "the file takes no more");
        return session_write_mark(line);
    }
    end(request == WRITER_EXIT ? SESSION_EXIT : SESSION_ASKED);
    return true;
}

static void look_into_mailbox(void)
{
    uint32_t state = ASKED;
    if (!atomic_compare_exchange_strong(&mailbox.state, &state, OBEYED))
        return;
    state = OBEYED;
    mailbox.done = obey(mailbox.request, mailbox.line, mailbox.why);
    if (!atomic_compare_exchange_strong(&mailbox.state, &state, ANSWERED))
        atomic_store(&mailbox.state, NOTHING); /* nobody waits any more */
}

/* Writes what there is; ends the recording if it cannot go on. */
static void write_some(uint64_t *flushed)
{
    const uint64_t now = clock_ns(CLOCK_MONOTONIC);
    const bool all = atomic_exchange(&starving, false) || now - *flushed >= FLUSH;
    if (all)
        *flushed = now;
    if (!session_drain(all) || (all && !session_write_clock()) || session_is_near_limit())
        end(session_failure());
}

static void *run(void *nothing)
{
    (void)nothing;
    (void)preload_set_busy(true); /* for good: its allocations are not the program's */
    (void)prctl(PR_SET_NAME, "dballoc-writer");
    if (atomic_exchange(&claimed, true)) /* the program is at its end */
        return NULL;
    descriptors_begin();
    uint64_t flushed = clock_ns(CLOCK_MONOTONIC);
    char why[LONGEST_WHY];
    if (is_recording())
        (void)open_file(why);
    descriptors_settle();
    for (;;) {
        const uint32_t rung = atomic_load(&bell);
        look_into_mailbox();
        if (atomic_load(&session_status.is_open))
            write_some(&flushed);
        const struct timespec wait = {.tv_nsec = is_recording() ? (long)LOOK : (long)FLUSH - 1};
        (void)syscall(SYS_futex, &bell, FUTEX_WAIT_PRIVATE, rung, &wait, NULL, 0);
    }
}

void writer_begin(void)
{
    if (!own_thread_start(run)) {
        message_write("the system gives it no thread to write with",
                "what it records is written at the program's end; raise the limit of tasks");
    }
}

/* Leaves a request that takes too long; false if it has just been answered. */
static bool give_up(void)
{
    uint32_t state = ASKED;
    if (atomic_compare_exchange_strong(&mailbox.state, &state, NOTHING))
        return true;
    state = OBEYED;
    return atomic_compare_exchange_strong(&mailbox.state, &state, ABANDONED);
}

bool writer_ask(enum writer_request request, const char *line, char why[LONGEST_WHY])
{
    const uint64_t deadline = clock_ns(CLOCK_MONOTONIC) + PATIENCE;
    uint32_t state = NOTHING;
    (void)snprintf(why, LONGEST_WHY, "the writer does not answer");
    while (!atomic_compare_exchange_strong(&mailbox.state, &state, FILLED_IN)) {
        /* Who asked may be interrupted for good, by a signal's handler that ends the program. */
        if (request == WRITER_EXIT && !is_under_way())
            return true;
        if (clock_ns(CLOCK_MONOTONIC) > deadline)
            return false;
        clock_sleep(NAP);
        state = NOTHING;
    }
    mailbox.request = request;
    (void)snprintf(mailbox.line, sizeof mailbox.line, "%s", line);
    atomic_store(&mailbox.state, ASKED);
    ring();
    while (atomic_load(&mailbox.state) != ANSWERED) {
        if (clock_ns(CLOCK_MONOTONIC) > deadline && give_up())
            return false;
        clock_sleep(NAP);
    }
    const bool done = mailbox.done;
    if (!done)
        memcpy(why, mailbox.why, LONGEST_WHY);
    atomic_store(&mailbox.state, NOTHING);
    return done;
}

/* Ends it here: no thread of ours has begun. A limit of the file's size would end the program by a
 * signal, which is taken away. */
static void finish_here(void)
{
    char why[LONGEST_WHY];
    sigset_t all;
    sigset_t before;
    sigset_t pending;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    if (open_file(why))
        end(SESSION_EXIT);
    sigset_t too_large;
    (void)sigemptyset(&too_large);
    (void)sigaddset(&too_large, SIGXFSZ);
    const struct timespec now = {0};
    if (sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1)
        (void)sigtimedwait(&too_large, NULL, &now);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void writer_finish(void)
{
    char why[LONGEST_WHY];
    const int error = errno;
    if (!atomic_exchange(&claimed, true)) {
        const bool busy = preload_set_busy(true);
        if (is_recording())
            finish_here();
        (void)preload_set_busy(busy);
    } else if (is_under_way()) {
        (void)writer_ask(WRITER_EXIT, "", why);
    }
    errno = error;
}
