/* dballoc_replay: replays the plan of a trace on the malloc of this process, which is whatever the
 * loader gives it. See options.c for the command line, plan_layout.h for the plan. */
#include <stdlib.h>

#include "clocks.h"
#include "curve.h"
#include "figures.h"
#include "handover.h"
#include "latency.h"
#include "memory.h"
#include "options.h"
#include "pacing.h"
#include "plan.h"
#include "report.h"
#include "runner.h"
#include "threads.h"

#include <inttypes.h>
#include <stdio.h>

/* The first root runs in the process's own thread, as in the server: some mallocs give that one a
 * heap of its own kind. The others wait for it with the window, or not at all. */
static uint32_t create_roots(void)
{
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < plan.header->threads; i++) {
        if (!(plan.threads[i].flags & THREAD_ROOT))
            continue;
        if (first == UINT32_MAX) {
            first = i;
        } else {
            threads_create(i);
        }
    }
    return first;
}

static void note_end_of(struct figures *figures)
{
    threads_wait_for_all();
    figures->nanoseconds = clock_now() - pacing_began;
    figures->end = curve_read_exactly();
    if (options.idle > 0) {
        clock_sleep_until(clock_now() + (uint64_t)(options.idle * 1e9));
        figures->idle = curve_read_exactly();
    }
}

int main(int count, char **words)
{
    struct figures figures = {0};
    options_read(count, words);
    memory_open_counters();
    if (options.only_own) {
        /* What comes now is shared memory. */
        (void)printf("{\"own\": %" PRIu64 "}\n", memory_read_anonymous_exactly());
        return 0;
    }
    plan_open(options.plan);
    plan_check_limits();
    runners_begin();
    handover_begin();
    pacing_begin();
    latency_begin();
    curve_begin();
    threads_begin();
    figures.at_start = memory_read_anonymous_exactly();
    pacing_start();
    curve_start_sampling();
    threads_run_here(create_roots());
    note_end_of(&figures);
    curve_stop_sampling();
    report_figures(&figures);
    return 0;
}
