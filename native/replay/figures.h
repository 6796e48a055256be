/* What main notes of a replay. */
#ifndef DBALLOC_REPLAY_FIGURES_H
#define DBALLOC_REPLAY_FIGURES_H

#include <stdint.h>

#include "curve.h"

/* nanoseconds: from the first event to the last; at_start: anonymous bytes before it; readings when
 * all threads had come to their end, and after the idle time. */
struct figures {
    uint64_t nanoseconds, at_start;
    struct curve_point end, idle;
};

#endif
