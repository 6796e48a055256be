/* What may be asked of the probe. */
#ifndef DBALLOC_PROBE_CONTROL_H
#define DBALLOC_PROBE_CONTROL_H

#include <stdint.h>

/* The least and the largest sampling interval that may be requested, bytes. */
static const uint64_t LEAST_INTERVAL = 1U << 10, MOST_INTERVAL = (uint64_t)1 << 40;

#endif
