/* The heap over the replay: what a thread of its own samples, and what is read at marks. */
#ifndef DBALLOC_REPLAY_CURVE_H
#define DBALLOC_REPLAY_CURVE_H

#include <stdbool.h>
#include <stdint.h>

#define CURVE_POINTS 2000

/* Anonymous memory of the process, with the engine's own; ns. */
struct curve_point {
    uint64_t time, since, anonymous;
    int64_t live;
};

struct curve {
    struct curve_point points[CURVE_POINTS];
    uint32_t count;
    uint64_t stride, in_last; /* readings of a point, and of the last one */
    uint64_t readings, cost;
    struct curve_point peak;
};

extern struct curve *curve;
/* By mark of the plan; anonymous is 0 where it was not reached. */
extern struct curve_point *curve_marks;

void curve_begin(void);
/* Begin and end sampling. Ends the process when the time is over, or when all threads wait. */
void curve_start_sampling(void);
void curve_stop_sampling(void);

bool curve_has_mark(uint32_t epoch);
void curve_add_marks(uint32_t epoch);
/* A reading now, exact. */
struct curve_point curve_read_exactly(void);

#endif
