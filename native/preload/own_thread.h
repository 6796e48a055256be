/* Starts threads of our own in the program. */
#ifndef DBALLOC_PRELOAD_OWN_THREAD_H
#define DBALLOC_PRELOAD_OWN_THREAD_H

#include <stdbool.h>

/* Runs a function in a detached thread with a small stack that gets none of the program's signals.
 * False if the system gives no thread. */
bool own_thread_start(void *(*run)(void *));

#endif
