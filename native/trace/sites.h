/* The call sites of large blocks: a number for each place that a call comes from. */
#ifndef DBALLOC_TRACE_SITES_H
#define DBALLOC_TRACE_SITES_H

#include <stddef.h>
#include <stdint.h>

#include "return_address.h"

/* Where a call comes from: its return address and, in the highest byte, how deep the stack is within
 * a page. The address alone is often that of the program's one wrapper of malloc. Who called that is
 * not known without walking the stack, but other ways to it have mostly other depths, and one way has
 * the same in every thread whose stack begins a page. */
static inline uintptr_t sites_place(const void *return_address, const void *frame)
{
    const uintptr_t caller = return_address_strip((uintptr_t)return_address);
    return caller | ((uintptr_t)frame >> 4 & 255) << 56;
}

/* The site's number, from 1 on; 0 if the table is full. */
uint32_t sites_number(uintptr_t place);

/* How rarely a block from there is looked at, see touches.h: one in 4^r. It depends on how many of
 * its size class (an octave has four) were looked at: each of the first FIRST_SAMPLES, then SAMPLES
 * of each rarity, then one in 4^LAST_RARITY. So a server's few blocks that live as long as it does
 * are nearly all looked at, and those of its load cost little. */
enum { FIRST_SAMPLES = 8, SAMPLES = 6, LAST_RARITY = 5 };
unsigned sites_rarity(uint32_t site, size_t size);

/* A block from there is looked at. */
void sites_count_sample(uint32_t site, size_t size);

#endif
