/* One thread, one client at a time, one line a connection:
 *
 *   status               lines "name value", and the end
 *   snapshot             see snapshot.c
 *   interval BYTES       sample one in so many bytes from now on; 0: idle
 *   start, stop          the interval that the probe was loaded with (or 512 KiB), 0
 *   reset                sets the sums (allocated, time in malloc) to 0; what is alive stays
 *
 * A client has two seconds for its line, and is left alone if it does not read its answer (see
 * client.c). Answers other than snapshots begin with "ok" or "error"; an error is one line. The
 * socket is the process's user's own (0600), and only that user and root are answered.
 *
 * The constructor does not start the thread, because a server that detaches forks first, and a
 * thread does not survive a fork. The first allocation of a second thread starts it, or one of the
 * first thread after a moment.
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
#include <sys/un.h>
#include <unistd.h>

#include "client.h"
#include "descriptors.h"
#include "latency.h"
#include "live.h"
#include "message.h"
#include "probe.h"
#include "snapshot.h"
#include "stacks.h"
#include "unwind.h"

enum { BACKLOG = 4, STACK_SIZE = 256 << 10 };
static const uint64_t MOMENT = 200000000; /* ns */

static _Atomic bool started;
static _Atomic bool bound;
static struct sockaddr_un address = {.sun_family = AF_UNIX};

/* -1 with errno. */
static int bound_socket(void)
{
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0)
        return -1;
    /* One of our number that was killed. The mode is set before the name appears: bind(2) takes it
     * from the socket. */
    (void)unlink(address.sun_path);
    if (fchmod(listener, S_IRUSR | S_IWUSR) != 0 ||
            bind(listener, (const struct sockaddr *)&address, sizeof address) != 0 ||
            listen(listener, BACKLOG) != 0) {
        const int error = errno;
        (void)close(listener);
        errno = error;
        return -1;
    }
    return listener;
}

/* False after a message that says why. */
static bool listen_there(struct descriptor *listener)
{
    char why[256];
    const int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/%d.sock",
            probe.directory, (int)probe.owner);
    if (length < 0 || (size_t)length >= sizeof address.sun_path) {
        message_write("its directory's name is too long for a socket",
                "it cannot be asked; give it a shorter one");
        return false;
    }
    if (!descriptor_take(listener, bound_socket())) {
        const char *error = strerrordesc_np(errno);
        (void)snprintf(why, sizeof why, "%s: %s", address.sun_path,
                error != NULL ? error : "an error without a name");
        message_write(why, "it cannot be asked; the program's user must be able to write there");
        return false;
    }
    atomic_store(&bound, true);
    return true;
}

static void answer(struct client *client, const char *text)
{
    (void)client_send(client, text, strlen(text));
}

static void status(struct client *client)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
            "ok\nversion %d\npid %d\ninterval %" PRIu64
            "\nlive %.0f\npeak %.0f\nlost_blocks %" PRIu64 "\nlost_stacks %" PRIu64
            "\noverwritten %" PRIu64 "\nby_pointers %" PRIu64 "\nby_cfi %" PRIu64
            "\nincomplete %" PRIu64 "\n",
            SNAPSHOT_VERSION, (int)probe.owner, (uint64_t)probe.interval, (double)live_totals.bytes,
            (double)live_totals.peak, (uint64_t)live_totals.lost, (uint64_t)stacks_lost,
            (uint64_t)live_totals.overwritten, (uint64_t)unwind_counts.by_pointers,
            (uint64_t)unwind_counts.by_cfi, (uint64_t)unwind_counts.incomplete);
    answer(client, text);
}

static void set_interval(struct client *client, const char *text)
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

static void obey(struct client *client, const char *line)
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

void control_serve(struct descriptor descriptor)
{
    struct client client;
    char line[LONGEST_LINE];
    client_begin(&client, descriptor);
    if (!client_read_line(&client, line)) {
        client.deadline = clock_ns(CLOCK_MONOTONIC) + MOMENT;
        answer(&client, "error no line\n");
    } else if (!client.welcome) { /* not before: it would be gone when the client writes */
        answer(&client, "error only the process's own user and root are answered\n");
    } else {
        obey(&client, line);
    }
}

/* Whether a socket came from our listener: in a table of open files that is not our own, another
 * may have had its number for a moment (see descriptors.h). */
static bool is_from_ours(int number)
{
    struct sockaddr_un here;
    socklen_t size = sizeof here;
    memset(&here, 0, sizeof here);
    return getsockname(number, (struct sockaddr *)&here, &size) == 0 &&
           here.sun_family == AF_UNIX &&
           strncmp(here.sun_path, address.sun_path, sizeof here.sun_path) == 0;
}

static void *run(void *nothing)
{
    struct descriptor listener;
    (void)nothing;
    thread.busy = true; /* for good: its allocations are not the program's */
    (void)prctl(PR_SET_NAME, "dballoc-probe");
    descriptors_begin();
    if (!listen_there(&listener))
        return NULL;
    descriptors_settle();
    for (;;) {
        /* The program may have closed it, as daemons close all that they have not opened. */
        if (!descriptor_is_ours(&listener) && !listen_there(&listener))
            return NULL;
        struct descriptor client;
        if (!descriptor_take(
                    &client, accept4(listener.number, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK))) {
            if (errno == EINVAL) /* somebody has shut it down */
                descriptor_close(&listener);
            /* The program has no file left to give, or the client has gone: neither ends us. */
            (void)usleep(10000);
            continue;
        }
        if (is_from_ours(client.number))
            control_serve(client);
        descriptor_close(&client);
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
    if (error != 0) {
        message_write("the system gives it no thread to answer with",
                "it cannot be asked; raise the limit of tasks");
    }
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
