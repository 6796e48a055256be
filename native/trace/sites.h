/* The call sites of large blocks: a number for each return address. */
#ifndef DBALLOC_TRACE_SITES_H
#define DBALLOC_TRACE_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The site's number, from 1 on; 0 if the table is full. `is_first`: whether this is the first block
 * of its size class from there, of which an octave has four. */
uint32_t sites_number(const void *return_address, size_t size, bool *is_first);

#endif
