/* One thread, one client at a time, one line a connection.
 *
 * A client has two seconds for its line, and is left alone if it does not read its answer (see
 * client.c). The socket is the process's user's own (0600), and only that user and root are
 * answered.
 *
 * A server that detaches forks first, and a thread does not survive a fork. So the thread that the
 * constructor starts only waits for a moment at first: where the program forks meanwhile, it ends,
 * and the child has one of its own (fork.c). In a parent that forked so early, and in a child
 * without one, the first allocation of a second thread starts it, or one of the first thread after
 * a moment.
 */
#include "listener.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "../error_text.h"
#include "client.h"
#include "clock.h"
#include "message.h"
#include "own_thread.h"
#include "preload.h"

enum { BACKLOG = 4, LOOK_AGAIN = 1000 /* ms */, ATTEMPTS = 100 };
static const uint64_t MOMENT = 200000000; /* ns */

struct preload preload;

static _Atomic bool started;
static _Atomic bool forked; /* before it was started */
static _Atomic bool bound;
static struct sockaddr_un address = {.sun_family = AF_UNIX};

/* Whether a socket is our listener, or came from it: in a table of open files that is not our own,
 * another may have had its number for a moment (see descriptors.h). */
static bool is_from_ours(int number)
{
    struct sockaddr_un here;
    socklen_t size = sizeof here;
    memset(&here, 0, sizeof here);
    return getsockname(number, (struct sockaddr *)&here, &size) == 0 &&
           here.sun_family == AF_UNIX &&
           strncmp(here.sun_path, address.sun_path, sizeof here.sun_path) == 0;
}

/* False with errno. The socket is moved to its place before it listens: the program's files get the
 * low numbers. */
static bool take_listener(struct descriptor *listener)
{
    if (!descriptor_take(listener, socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)))
        return false;
    /* One of our number that was killed. The mode is set before the name appears: bind(2) takes it
     * from the socket. */
    (void)unlink(address.sun_path);
    if (fchmod(listener->number, S_IRUSR | S_IWUSR) == 0 &&
            bind(listener->number, (const struct sockaddr *)&address, sizeof address) == 0 &&
            listen(listener->number, BACKLOG) == 0 && is_from_ours(listener->number))
        return true;
    const int error = errno;
    descriptor_close(listener);
    errno = error;
    return false;
}

/* False after a message that says why. */
static bool listen_there(struct descriptor *listener)
{
    char why[256];
    const int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/%d.sock",
            preload.directory, (int)preload.owner);
    if (length < 0 || (size_t)length >= sizeof address.sun_path) {
        message_write("the path of its directory is too long for a socket",
                "dballoc cannot talk to it: choose a directory with a shorter path");
        return false;
    }
    if (!take_listener(listener)) {
        const char *error = error_text(errno);
        (void)snprintf(why, sizeof why, "%s: %s", address.sun_path,
                error != NULL ? error : "unknown error");
        message_write(why, "dballoc cannot talk to it: let the program's user write there");
        return false;
    }
    atomic_store(&bound, true);
    return true;
}

/* After the program has closed our socket. In its table it may close the new one too before that
 * listens, or have a file of its own there: that is no reason to give up. */
static bool listen_again(struct descriptor *listener)
{
    for (int attempt = 0; attempt < ATTEMPTS && !descriptors_are_apart(); attempt++) {
        if (take_listener(listener))
            return true;
        (void)usleep(10000);
    }
    return listen_there(listener);
}

void listener_serve(struct descriptor descriptor)
{
    struct client client;
    char line[LONGEST_LINE];
    client_begin(&client, descriptor);
    if (!client_read_line(&client, line)) {
        client_refuse(&client, "error the request is not one line\n");
    } else if (!client.welcome) { /* not before: it would be gone when the client writes */
        client_refuse(&client, "error only root and the user of the process may ask\n");
    } else {
        preload_obey(&client, line);
    }
}

/* Waits until a client is there; false if one may not be, for the caller looks again. In the
 * program's table the number may have become a file of the program's in which nothing ever happens,
 * so there it looks every second. */
static bool wait_for_client(const struct descriptor *listener)
{
    struct pollfd socket = {.fd = listener->number, .events = POLLIN};
    const int ready = poll(&socket, 1, descriptors_are_apart() ? -1 : LOOK_AGAIN);
    if (ready < 0)
        (void)usleep(10000); /* the kernel has no memory: no reason to spin */
    return ready > 0 && descriptor_is_ours(listener);
}

static void *run(void *nothing)
{
    struct descriptor listener;
    (void)nothing;
    (void)preload_set_busy(true); /* for good: its allocations are not the program's */
    (void)prctl(PR_SET_NAME, preload_thread_name);
    descriptors_begin();
    const bool listens = listen_there(&listener);
    preload_settled();
    if (!listens)
        return NULL;
    descriptors_settle();
    for (;;) {
        /* The program may have closed it, as daemons close all that they have not opened. */
        if (!descriptor_is_ours(&listener) && !listen_again(&listener))
            return NULL;
        if (!wait_for_client(&listener))
            continue;
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
            listener_serve(client);
        descriptor_close(&client);
    }
}

/* Becomes the thread that answers, after a moment in which the program may detach. */
static void *wait_and_run(void *nothing)
{
    (void)preload_set_busy(true);
    clock_sleep(MOMENT);
    if (atomic_load(&forked) || atomic_exchange(&started, true))
        return NULL;
    return run(nothing);
}

void listener_begin(void)
{
    (void)own_thread_start(wait_and_run); /* without it, a later allocation starts it */
}

void listener_start(void)
{
    if (atomic_exchange(&started, true))
        return;
    if (!own_thread_start(run)) {
        message_write("the system refused its thread",
                "dballoc cannot talk to it: raise the limit of tasks (ulimit -u, TasksMax)");
    }
}

void listener_consider(bool is_first_thread)
{
    if (atomic_load_explicit(&started, memory_order_relaxed))
        return;
    if (getpid() != preload.owner) /* between vfork and exec */
        return;
    if (is_first_thread && clock_ns(CLOCK_MONOTONIC) - preload.began < MOMENT)
        return;
    listener_start();
}

bool listener_started(void)
{
    return atomic_load(&started);
}

void listener_in_parent(void)
{
    atomic_store(&forked, !atomic_load(&started));
}

void listener_in_child(void)
{
    atomic_store(&forked, false);
}

void listener_end(void)
{
    if (atomic_load(&bound) && getpid() == preload.owner)
        (void)unlink(address.sun_path);
}
