#include "own_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "preload.h"

enum { STACK_SIZE = 256 << 10 };

static int create(void *(*run)(void *))
{
    pthread_attr_t attributes;
    pthread_t created;
    int error = pthread_attr_init(&attributes);
    if (error != 0)
        return error;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, STACK_SIZE);
    error = pthread_create(&created, &attributes, run, NULL);
    if (error == EINVAL) { /* so much thread-local storage that the stack is too small */
        (void)pthread_attr_setstacksize(&attributes, (size_t)STACK_SIZE * 32);
        error = pthread_create(&created, &attributes, run, NULL);
    }
    (void)pthread_attr_destroy(&attributes);
    return error;
}

bool own_thread_start(void *(*run)(void *))
{
    /* The program's signals are not for it. */
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    const bool hidden = preload_hide_creation(true);
    const int error = create(run);
    (void)preload_hide_creation(hidden);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}
