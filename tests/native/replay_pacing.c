// In timed mode each event has the clock read before it, which is no CPU of the event's.
#include <stdio.h>
#include <stdlib.h>

#include "clocks.h"
#include "curve.h"
#include "memory.h"
#include "options.h"
#include "pacing.h"
#include "plan.h"

enum { EVENTS = 1000, OF_A_READING = 25, OF_A_SLEEP = 700 };

struct plan plan;
struct options options = {.speed = 1};
struct runner *runners;
uint64_t latency_clock = OF_A_READING;

bool curve_has_mark(uint32_t epoch)
{
    (void)epoch;
    return false;
}

void curve_add_marks(uint32_t epoch)
{
    (void)epoch;
}

void *memory_map_present(size_t count, size_t size)
{
    return calloc(count, size);
}

struct interval interval_begin(void)
{
    return (struct interval){0};
}

void interval_end(struct interval interval, struct runner *runner)
{
    runner->cpu_outside += OF_A_SLEEP + interval.cpu;
}

void interval_end_waiting(struct interval interval, struct runner *runner, enum wait_kind kind)
{
    (void)kind;
    interval_end(interval, runner);
}

int main(void)
{
    struct runner runner = {0};
    pacing_began = clock_now();
    for (int i = 0; i < EVENTS; i++) {
        pacing_wait_for(&runner, 0); // it is late
    }
    const uint64_t late = runner.cpu_outside;
    pacing_wait_for(&runner, clock_now() - pacing_began + 20000000); // it sleeps
    printf("%lu %lu\n", (unsigned long)late, (unsigned long)(runner.cpu_outside - late));
    return 0;
}
