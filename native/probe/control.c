/* One thread, one client at a time, one line a connection:
 *
 *   status               lines "name value", and the end
 *   snapshot             see snapshot.c
 *   interval BYTES       sample one in so many bytes from now on; 0: idle
 *   start, stop          the interval that the probe was loaded with (or 512 KiB), 0
 *   reset                sets the sums (allocated, time in malloc) to 0; what is alive stays
 *
 * Answers other than snapshots begin with "ok" or "error"; an error is one line. The socket is the process's user's own
 * (0600), and only that user and root are answered.
 *
 * The thread is not started by the constructor: a server that detaches forks first, and a thread does not follow. It is
 * started by the first allocation of a second thread, or of the first one after a moment.
 */
#include "control.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "latency.h"
#include "live.h"
#include "probe.h"
#include "snapshot.h"
#include "stacks.h"
#include "unwind.h"

enum { LONGEST_LINE = 64, PATIENCE_SECONDS = 10, BACKLOG = 4, STACK_SIZE = 256 << 10 };
static const uint64_t MOMENT = 200000000; /* ns */

static _Atomic bool started;
static _Atomic bool bound;
static struct sockaddr_un address = {.sun_family = AF_UNIX};

/* One line on standard error: there is nobody else to tell. */
static void complain(const char *what, int error)
{
    char line[512];
    const int length = snprintf(line, sizeof line, "dballoc probe: %s: %s: %s\n", what, address.sun_path,
            error == 0 ? "too long for a socket" : strerrordesc_np(error));
    if (length > 0 && write(STDERR_FILENO, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1) < 0)
        return;
}

/* -1, having said why. */
static int listen_there(void)
{
    const int length =
            snprintf(address.sun_path, sizeof address.sun_path, "%s/%d.sock", probe.directory, (int)probe.owner);
    if (length < 0 || (size_t)length >= sizeof address.sun_path) {
        complain("it cannot be asked", 0);
        return -1;
    }
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0) {
        complain("no socket", errno);
        return -1;
    }
    /* One of our number that was killed. The mode is set before the name appears: bind(2) takes it from the socket. */
    (void)unlink(address.sun_path);
    if (fchmod(listener, S_IRUSR | S_IWUSR) != 0 ||
            bind(listener, (const struct sockaddr *)&address, sizeof address) != 0 || listen(listener, BACKLOG) != 0) {
        complain("it cannot be asked", errno);
        (void)close(listener);
        return -1;
    }
    atomic_store(&bound, true);
    return listener;
}

static bool is_welcome(int client)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == 0 || peer.uid == geteuid());
}

/* One line without its end; false if it is too long, or does not come in time. */
static bool read_line(int client, char line[LONGEST_LINE])
{
    size_t length = 0;
    while (length < LONGEST_LINE) {
        const ssize_t got = recv(client, line + length, LONGEST_LINE - length, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        length += (size_t)got;
        char *end = memchr(line, '\n', length);
        if (end != NULL) {
            *end = '\0';
            return true;
        }
    }
    return false;
}

static void answer(int client, const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        const ssize_t sent = send(client, text, left, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return;
        text += sent;
        left -= (size_t)sent;
    }
}

static void status(int client)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
            "ok\nversion %d\npid %d\ninterval %" PRIu64 "\nlive %.0f\npeak %.0f\nlost_blocks %" PRIu64
            "\nlost_stacks %" PRIu64 "\noverwritten %" PRIu64 "\nby_pointers %" PRIu64 "\nby_cfi %" PRIu64
            "\nincomplete %" PRIu64 "\n",
            SNAPSHOT_VERSION, (int)probe.owner, (uint64_t)probe.interval, (double)live_totals.bytes,
            (double)live_totals.peak, (uint64_t)live_totals.lost, (uint64_t)stacks_lost,
            (uint64_t)live_totals.overwritten, (uint64_t)unwind_counts.by_pointers, (uint64_t)unwind_counts.by_cfi,
            (uint64_t)unwind_counts.incomplete);
    answer(client, text);
}

static void set_interval(int client, const char *text)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long bytes = strtoull(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' ||
            (bytes != 0 && (bytes < LEAST_INTERVAL || bytes > MOST_INTERVAL))) {
        answer(client, "error interval: 0, or 1024 to 2^40 bytes\n");
        return;
    }
    atomic_store(&probe.interval, bytes);
    answer(client, "ok\n");
}

static void serve(int client)
{
    static const char INTERVAL[] = "interval ";
    char line[LONGEST_LINE];
    if (!read_line(client, line)) {
        answer(client, "error no line\n");
    } else if (!is_welcome(client)) { /* not before: it would be gone when the client writes */
        answer(client, "error only the process's own user and root are answered\n");
    } else if (strcmp(line, "status") == 0) {
        status(client);
    } else if (strcmp(line, "snapshot") == 0) {
        snapshot_send(client);
    } else if (strncmp(line, INTERVAL, sizeof INTERVAL - 1) == 0) {
        set_interval(client, line + sizeof INTERVAL - 1);
    } else if (strcmp(line, "start") == 0) {
        atomic_store(&probe.interval, probe.first_interval);
        answer(client, "ok\n");
    } else if (strcmp(line, "stop") == 0) {
        atomic_store(&probe.interval, 0);
        answer(client, "ok\n");
    } else if (strcmp(line, "reset") == 0) {
        stacks_reset();
        latency_reset();
        atomic_store(&probe.reset, clock_ns(CLOCK_MONOTONIC));
        atomic_store(&probe.reset_cpu, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
        answer(client, "ok\n");
    } else {
        answer(client, "error unknown: status, snapshot, interval BYTES, start, stop, reset\n");
    }
}

static void *run(void *nothing)
{
    (void)nothing;
    thread.busy = true; /* for good: what it does is not the program's */
    (void)prctl(PR_SET_NAME, "dballoc-probe");
    const int listener = listen_there();
    if (listener < 0)
        return NULL;
    for (;;) {
        const int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0) {
            /* The program has no file left to give, or the client has gone: neither ends us. */
            (void)usleep(10000);
            continue;
        }
        const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
        (void)setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        (void)setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        serve(client);
        (void)close(client);
    }
}

void control_consider(const struct thread *mine)
{
    if (atomic_load_explicit(&started, memory_order_relaxed))
        return;
    if (getpid() != probe.owner) /* between vfork and exec */
        return;
    if (mine->id == probe.owner && clock_ns(CLOCK_MONOTONIC) - probe.began < MOMENT)
        return;
    if (atomic_exchange(&started, true))
        return;
    /* The program's signals are not for it. */
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    pthread_attr_t attributes;
    pthread_t created;
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return;
    int error = pthread_attr_init(&attributes);
    if (error == 0) {
        (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        (void)pthread_attr_setstacksize(&attributes, STACK_SIZE);
        error = pthread_create(&created, &attributes, run, NULL);
        if (error == EINVAL) { /* so much thread-local storage that the stack is too small */
            (void)pthread_attr_setstacksize(&attributes, (size_t)STACK_SIZE * 32);
            error = pthread_create(&created, &attributes, run, NULL);
        }
        (void)pthread_attr_destroy(&attributes);
    }
    if (error != 0)
        complain("no thread to answer", error);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

bool control_started(void)
{
    return atomic_load(&started);
}

void control_end(void)
{
    if (atomic_load(&bound) && getpid() == probe.owner)
        (void)unlink(address.sun_path);
}
