/* The probe's data of each thread: plain data in static TLS, so nothing has to be done when a
 * thread ends. */
#ifndef DBALLOC_PROBE_THREAD_H
#define DBALLOC_PROBE_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct thread {
    size_t left;       /* bytes to go before one is sampled */
    uint32_t ticks;    /* calls to go before one is timed */
    bool busy;         /* already in the probe: a signal handler allocates */
    bool begun;        /* the rest is set */
    int id;            /* the kernel's thread ID */
    uint64_t interval; /* mean of the distribution that `left` was drawn from; 0: nothing is sampled
                        */
    uint64_t random;   /* state of the generator */
    uintptr_t top;     /* end of its stack */
    uintptr_t readable; /* from here to `top` the stack is known to be readable */
};

extern _Thread_local struct thread thread __attribute__((tls_model("initial-exec")));

#endif
