/* The call sites of large blocks: a number for each place that a call comes from. */
#ifndef DBALLOC_TRACE_SITES_H
#define DBALLOC_TRACE_SITES_H

#include <stdbool.h>
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

/* The site's number, from 1 on; 0 if the table is full. `is_first`: whether this is the first block
 * of its size class from there, of which an octave has four. */
uint32_t sites_number(uintptr_t place, size_t size, bool *is_first);

#endif
