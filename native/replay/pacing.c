#include "pacing.h"

#include <limits.h>

#include "clocks.h"
#include "curve.h"
#include "futex.h"
#include "latency.h"
#include "memory.h"
#include "options.h"
#include "plan.h"

uint64_t pacing_began;

static _Atomic uint32_t floor_epoch;
static _Atomic uint32_t waiting_for_floor;
static _Atomic uint32_t waiting;
static _Atomic uint64_t waits_ended;
static _Atomic int64_t *live_change;

/* A sleep shorter than this is not worth its system call. ns */
enum { SHORTEST_SLEEP = 50000 };

/* So many are passed in less time than reading the CPU clock takes. */
enum { FEW_EPOCHS = 32 };

void pacing_begin(void)
{
    live_change = memory_map_present(plan.places, sizeof *live_change);
}

uint32_t pacing_floor(void)
{
    return atomic_load(&floor_epoch);
}

int64_t pacing_live_change(uint32_t place)
{
    return atomic_load_explicit(&live_change[place], memory_order_relaxed);
}

void pacing_begin_waiting(void)
{
    atomic_fetch_add(&waiting, 1);
}

void pacing_end_waiting(void)
{
    atomic_fetch_sub(&waiting, 1);
    atomic_fetch_add(&waits_ended, 1);
}

uint64_t pacing_waits_ended(void)
{
    return atomic_load(&waits_ended);
}

uint32_t pacing_waiting(void)
{
    return atomic_load(&waiting);
}

static bool is_left(uint32_t epoch)
{
    if (epoch >= plan.header->epochs)
        return false;
    return !plan_is_entered(epoch) || atomic_load(&plan.pending[plan_place(epoch)]) == 0;
}

/* Move the floor past epochs that all have left, `most` of them or up to a mark; returns how many. */
static uint32_t pass_few(uint32_t most)
{
    uint32_t epoch = atomic_load(&floor_epoch);
    uint32_t passed = 0;
    while (passed < most && is_left(epoch) && !curve_has_mark(epoch)) {
        if (atomic_compare_exchange_weak(&floor_epoch, &epoch, epoch + 1)) {
            passed++;
            epoch++;
        }
    }
    return passed;
}

/* Move it past all that are left, and read the marks. */
static void pass_rest(void)
{
    uint32_t epoch = atomic_load(&floor_epoch);
    while (is_left(epoch)) {
        if (!atomic_compare_exchange_weak(&floor_epoch, &epoch, epoch + 1))
            continue;
        if (curve_has_mark(epoch))
            curve_add_marks(epoch);
        epoch++;
    }
}

/* Move the floor past the epochs that all have left. Whoever makes a count 0 comes here after it,
 * and all of this is sequentially consistent: so if two threads leave two epochs at once, one of
 * them sees both. A trace of hours in which little happens has many epochs for each event, which
 * are not its CPU. */
static void move_floor(struct runner *runner)
{
    bool moved = pass_few(FEW_EPOCHS) > 0;
    if (is_left(atomic_load(&floor_epoch))) {
        struct interval interval = interval_begin();
        pass_rest();
        interval_end(interval, runner);
        moved = true;
    }
    if (moved && atomic_load(&waiting_for_floor) > 0) {
        struct interval interval = interval_begin();
        futex_wake(&floor_epoch, INT_MAX);
        interval_end(interval, runner);
    }
}

void pacing_start(void)
{
    pacing_began = clock_now();
    move_floor(&runners[0]);
    runners[0].cpu_outside = 0; /* the main thread's, before that runner reads its clock */
}

void pacing_leave(struct runner *runner)
{
    if (runner->epoch < 0)
        return;
    int64_t live = atomic_load_explicit(&runner->live, memory_order_relaxed);
    if (live != runner->live_before) {
        atomic_fetch_add_explicit(
                &live_change[runner->place], live - runner->live_before, memory_order_relaxed);
    }
    runner->live_before = live;
    if (atomic_fetch_sub(&plan.pending[runner->place], 1) == 1)
        move_floor(runner);
    runner->epoch = -1;
}

static void wait_for_floor(struct runner *runner, uint32_t lowest)
{
    struct interval interval = interval_begin();
    atomic_fetch_add(&waiting_for_floor, 1);
    pacing_begin_waiting();
    for (uint32_t epoch = 0; (epoch = atomic_load(&floor_epoch)) < lowest;)
        futex_wait(&floor_epoch, epoch);
    pacing_end_waiting();
    atomic_fetch_sub(&waiting_for_floor, 1);
    interval_end_waiting(interval, runner, WAIT_WINDOW);
}

void pacing_enter(struct runner *runner, uint32_t epoch)
{
    pacing_leave(runner);
    uint32_t ahead = options.epochs_ahead;
    if (ahead < epoch && atomic_load(&floor_epoch) < epoch - ahead)
        wait_for_floor(runner, epoch - ahead);
    runner->epoch = epoch;
    runner->place = plan_place(epoch);
    runner->epoch_ns = (uint64_t)epoch * plan.header->epoch_ns;
}

void pacing_wait_for(struct runner *runner, uint64_t time)
{
    uint64_t moment = pacing_began + (uint64_t)((double)time / options.speed);
    uint64_t now = clock_now();
    runner->cpu_outside += latency_clock; /* of this reading, which no event is there for */
    if (now > moment) {
        if (now - moment > runner->lateness)
            runner->lateness = now - moment;
        return;
    }
    if (moment - now < SHORTEST_SLEEP)
        return;
    struct interval interval = interval_begin();
    clock_sleep_until(moment);
    interval_end(interval, runner);
}
