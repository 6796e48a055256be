/* However the program ends, what a preload has to write is written: at exit, at quick_exit, and where
 * the program calls _exit, as servers do after a crash or in a hurry. Only what ends by a signal, or
 * becomes another program, ends without. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "listener.h"
#include "preload.h"

#define EXPORT __attribute__((visibility("default")))

/* Looked up early: a child of vfork ends here too, and must not take the loader's locks. */
static void (*next_exit)(int status);
static void (*next_c_exit)(int status);

/* Not to be cancelled: it would end one thread alone, in the middle of writing, and no program. */
static void finish(void)
{
    int before = PTHREAD_CANCEL_ENABLE;
    const bool is_held = pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before) == 0;
    if (preload_is_active() && getpid() == preload.owner)
        preload_finish();
    listener_end();
    if (is_held)
        (void)pthread_setcancelstate(before, &before);
}

__attribute__((constructor)) static void look(void)
{
    void *address = dlsym(RTLD_NEXT, "_exit");
    memcpy(&next_exit, &address, sizeof address);
    address = dlsym(RTLD_NEXT, "_Exit");
    memcpy(&next_c_exit, &address, sizeof address);
    (void)at_quick_exit(finish); /* there is always room for the first ones (C17 7.22.4.3) */
}

__attribute__((destructor)) static void end(void)
{
    finish();
}

/* exit itself does not come here, nor does quick_exit. */
EXPORT __attribute__((noreturn)) void _exit(int status)
{
    finish();
    if (next_exit != NULL)
        next_exit(status);
    abort();
}

EXPORT __attribute__((noreturn)) void _Exit(int status)
{
    finish();
    if (next_c_exit != NULL)
        next_c_exit(status);
    abort();
}
