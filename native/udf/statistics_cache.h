/* The last text about malloc, and when the next one may be made.
 *
 * Every account of a server may call the function, in a loop and in many connections, and what it
 * asks of malloc may stop allocating threads: glibc's malloc_info takes the lock of every arena. So
 * malloc is asked by one thread at a time, ten times a second at most, and for a fiftieth of the
 * time at most; all others have the last text, with its age.
 */
#ifndef DBALLOC_UDF_STATISTICS_CACHE_H
#define DBALLOC_UDF_STATISTICS_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CACHE_BYTES = 959 * 1024 };

/* How long a text is, and in nanoseconds how old and what it took to make. */
struct kept {
    size_t length;
    uint64_t age, took;
};

/* True: make a text, and hand it to cache_keep, whatever becomes of it; nobody else does meanwhile.
 * False: the last one is in `bytes`, of which there are CACHE_BYTES; of length 0 if there is none
 * yet, and the first is long in the making.
 */
bool cache_take(char *bytes, struct kept *kept);

/* The text that cache_take has asked for. No lock is held from one to the other. */
void cache_keep(const char *bytes, size_t length, struct kept *kept);

/* What is kept is no longer true: the next one that asks makes a new text. */
void cache_forget(void);

#endif
