/* A child that takes its parent's place gets a thread that answers, even if it never allocates.
 *
 * Not from pthread_atfork's handler: creating a thread allocates, and a malloc whose own handler
 * runs later still holds its locks then. So fork and daemon are interposed, which return when all
 * handlers have run. vfork's children share our memory, and go to another program.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "listener.h"
#include "preload.h"

#define EXPORT __attribute__((visibility("default")))

/* dlsym returns an object pointer; POSIX lets it be a function's (dlsym(3) casts so). */
static void find(void *pointer, const char *name)
{
    void *address = dlsym(RTLD_NEXT, name);
    memcpy(pointer, &address, sizeof address);
}

static pid_t (*next_fork)(void);
static int (*next_daemon)(int nochdir, int noclose);

/* Before there are threads, and before a signal handler forks. */
__attribute__((constructor)) static void look(void)
{
    find(&next_fork, "fork");
    find(&next_daemon, "daemon");
}

static void begin_in_child(void)
{
    const int error = errno;
    if (preload.owner == getpid() && preload_is_active() && !listener_started())
        listener_begin();
    errno = error;
}

EXPORT pid_t fork(void)
{
    if (next_fork == NULL)
        look();
    const pid_t child = next_fork();
    if (child == 0)
        begin_in_child();
    return child;
}

EXPORT int daemon(int nochdir, int noclose)
{
    if (next_daemon == NULL)
        look();
    const int result = next_daemon(nochdir, noclose);
    if (result == 0)
        begin_in_child();
    return result;
}
