/* What may be asked of the recorder. */
#ifndef DBALLOC_TRACE_CONTROL_H
#define DBALLOC_TRACE_CONTROL_H

#include <stdint.h>

/* The least and the largest limit of a file, bytes. */
static const uint64_t LEAST_LIMIT = 1U << 20, MOST_LIMIT = (uint64_t)1 << 50;

#endif
