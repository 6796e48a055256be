#include "clocks.h"

uint64_t clock_cpu_cost;

void clock_calibrate(void)
{
    enum { BATCHES = 20, READINGS = 50 };
    /* The least of many: the rest was interrupted. */
    clock_cpu_cost = UINT64_MAX;
    for (int batch = 0; batch < BATCHES; batch++) {
        uint64_t first = clock_cpu();
        uint64_t last = first;
        for (int i = 0; i < READINGS; i++)
            last = clock_cpu();
        if ((last - first) / READINGS < clock_cpu_cost)
            clock_cpu_cost = (last - first) / READINGS;
    }
}
