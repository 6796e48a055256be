#include "curve.h"

#include <stdatomic.h>
#include <stdio.h>

#include "clocks.h"
#include "memory.h"
#include "options.h"
#include "pacing.h"
#include "plan.h"
#include "report.h"
#include "threads.h"

struct curve *curve;
struct curve_point *curve_marks;

static _Atomic uint64_t next_mark;
static _Atomic int stop;
static pthread_t sampler;

/* ns between two readings; and the share of the time that they may take. */
enum { INTERVAL = 1000000, SHARE = 20 };
/* ns after which threads that all wait count as waiting forever: any that could go on has had CPU
 * by then, however busy the machine is. */
#define FOREVER 20000000000ull

void curve_begin(void)
{
    curve = memory_map_present(1, sizeof *curve);
    curve->stride = 1;
    curve_marks = memory_map_present(plan.header->marks, sizeof *curve_marks);
}

static struct curve_point read_point(uint64_t anonymous)
{
    uint64_t time = (uint64_t)pacing_floor() * plan.header->epoch_ns;
    return (struct curve_point){.time = time,
            .since = clock_now() - pacing_began,
            .anonymous = anonymous,
            .live = runners_live()};
}

struct curve_point curve_read_exactly(void)
{
    struct curve_point point = read_point(memory_read_anonymous_exactly());
    return point;
}

/* A mark is read at the end of the epoch whose end is nearest to it. */
static uint64_t epoch_of_mark(uint64_t mark)
{
    uint64_t boundary = (plan.marks[mark].time + plan.header->epoch_ns / 2) / plan.header->epoch_ns;
    return boundary > 0 ? boundary - 1 : 0;
}

bool curve_has_mark(uint32_t epoch)
{
    uint64_t mark = atomic_load(&next_mark);
    return mark < plan.header->marks && epoch_of_mark(mark) <= epoch;
}

void curve_add_marks(uint32_t epoch)
{
    uint64_t mark = atomic_load(&next_mark);
    while (mark < plan.header->marks && epoch_of_mark(mark) <= epoch) {
        if (atomic_compare_exchange_weak(&next_mark, &mark, mark + 1))
            curve_marks[mark++] = curve_read_exactly();
    }
}

/* Two points become one: the later, with the higher of both. */
static void halve_points(void)
{
    for (size_t i = 0; i < CURVE_POINTS / 2; i++) {
        struct curve_point first = curve->points[2 * i];
        curve->points[i] = curve->points[2 * i + 1];
        if (first.anonymous > curve->points[i].anonymous)
            curve->points[i].anonymous = first.anonymous;
    }
    curve->count = CURVE_POINTS / 2;
    curve->stride *= 2;
}

static void add_point(struct curve_point point)
{
    if (point.anonymous > curve->peak.anonymous)
        curve->peak = point;
    if (curve->count > 0 && curve->in_last < curve->stride) {
        struct curve_point *last = &curve->points[curve->count - 1];
        if (last->anonymous > point.anonymous)
            point.anonymous = last->anonymous;
        *last = point;
        curve->in_last++;
        return;
    }
    if (curve->count == CURVE_POINTS)
        halve_points();
    curve->points[curve->count++] = point;
    curve->in_last = 1;
}

static void check_progress(uint64_t now)
{
    static uint64_t last_ended, since; /* 0: this is the first look */
    uint64_t ended = pacing_waits_ended();
    uint32_t alive = threads_alive();
    if (since == 0 || alive == 0 || pacing_waiting() < alive || ended != last_ended) {
        last_ended = ended;
        since = now;
    } else if (now - since > FOREVER) {
        report_fault("hang", "the trace's threads wait for each other");
    }
    if ((double)(now - pacing_began) > options.seconds * 1e9) {
        char text[100];
        (void)snprintf(text, sizeof text,
                "it was not at its end after %.0f seconds, at %.3f s of "
                "the trace",
                options.seconds, (double)pacing_floor() * (double)plan.header->epoch_ns / 1e9);
        report_fault("hang", text);
    }
}

static void *sample(void *unused)
{
    while (!atomic_load(&stop)) {
        uint64_t began = clock_now();
        add_point(read_point(memory_read_anonymous()));
        uint64_t now = clock_now();
        check_progress(now);
        curve->readings++;
        curve->cost += now - began;
        uint64_t interval = (now - began) * SHARE;
        clock_sleep_until(now + (interval > INTERVAL ? interval : INTERVAL));
    }
    return unused;
}

void curve_start_sampling(void)
{
    sampler = threads_begin_helper(sample);
}

void curve_stop_sampling(void)
{
    atomic_store(&stop, 1);
    (void)pthread_join(sampler, NULL);
}
