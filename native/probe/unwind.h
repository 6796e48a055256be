/* Who called: the return addresses of a thread's stack. */
#ifndef DBALLOC_PROBE_UNWIND_H
#define DBALLOC_PROBE_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "thread.h"

/* How many stacks were walked by frame pointers alone, by CFI, and how many of all do not reach a
 * thread's start. */
struct unwind_counts {
    _Atomic uint64_t by_pointers, by_cfi, incomplete;
};

extern struct unwind_counts unwind_counts;

/* Finds libgcc's unwinder: once, before anything is sampled. */
void unwind_choose(void);

/* Notes where this thread's stack ends. */
void unwind_begin(struct thread *mine);

/* Fills pcs (STACK_DEPTH of them at most), the innermost first, from the frame of a function that
 * the program called. `truncated`: the outermost are missing. */
uint32_t unwind(const uintptr_t *frame, uintptr_t *pcs, bool *truncated);

#endif
