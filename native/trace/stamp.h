/* The clock of the recorder's stamps: the processor's counter, or else CLOCK_MONOTONIC, without its
 * lowest bits: one unit is 2^STAMP_SHIFT ticks, a few nanoseconds.
 *
 * What is rounded down alike keeps its order: where A was before B, stamp(A) <= stamp(B). Records
 * in the file say which stamp was at which time (see chunk.h).
 */
#ifndef DBALLOC_TRACE_STAMP_H
#define DBALLOC_TRACE_STAMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined __x86_64__
enum { STAMP_SHIFT = 4 };
#elif defined __aarch64__
enum { STAMP_SHIFT = 0 }; /* it ticks with 25 MHz to 1 GHz */
#else
enum { STAMP_SHIFT = 2 };
#endif

/* Whether the processor's counter runs evenly, and on all processors alike. */
extern bool stamp_by_counter;

/* Decides which clock it is. */
void stamp_begin(void);

/* Whether a list of the kernel's clocks has x86-64's counter in it, as a whole word with an end:
 * "tsc-early" is another. */
bool stamp_names_counter(const char *names, size_t length);

/* By the kernel's clock. Out of the way, because it needs more of the stack. */
uint64_t stamp_of_clock(void);

/* Where stamp_by_counter holds. */
static inline uint64_t stamp_by_the_counter(void)
{
#if defined __x86_64__
    return __builtin_ia32_rdtsc() >> STAMP_SHIFT;
#elif defined __aarch64__
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return stamp_of_clock();
#endif
}

static inline uint64_t stamp_now(void)
{
    return __builtin_expect(stamp_by_counter, 1) ? stamp_by_the_counter() : stamp_of_clock();
}

/* Waits until what comes before in the program is done. A processor reads its counter as early as it
 * likes, even while it still waits for a lock. */
static inline void stamp_wait(void)
{
#if defined __x86_64__
    __builtin_ia32_lfence();
#elif defined __aarch64__
    __asm__ volatile("isb" : : : "memory");
#endif
}

#endif
