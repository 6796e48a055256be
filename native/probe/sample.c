/* Sampling by bytes: a Poisson process over the bytes that a thread asks for.
 *
 * The gap to the next sampled byte is exponential with the interval as its mean, so a call for s
 * bytes is sampled with p = 1 - exp(-(s + 1) / interval), each on its own, and stands for 1 / p
 * calls (Horvitz and Thompson's estimator: unbiased for whatever is summed over the calls; here
 * usable bytes). Because the process has no memory, a pending gap may be thrown away and drawn anew
 * at any time: that is how the interval changes while threads run.
 */
#include "sample.h"

#include <errno.h>
#include <math.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "filter.h"
#include "latency.h"
#include "listener.h"
#include "live.h"
#include "next_allocator.h"
#include "preload.h"
#include "probe.h"
#include "stacks.h"
#include "unwind.h"

_Thread_local struct thread thread __attribute__((tls_model("initial-exec")));

/* xorshift64* (Vigna, 2014). */
static uint64_t draw(struct thread *mine)
{
    uint64_t x = mine->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    mine->random = x;
    return x * 0x2545F4914F6CDD1DU;
}

/* Bytes to the next sample: exponential. While nothing is sampled: never; the ticks look for a
 * change. */
static size_t gap(struct thread *mine)
{
    if (mine->interval == 0)
        return SIZE_MAX / 2;
    const double uniform = (double)((draw(mine) >> 11) + 1) * 0x1p-53; /* (0, 1] */
    const double bytes = -log(uniform) * (double)mine->interval;
    return bytes < 0x1p62 ? (size_t)bytes : (size_t)1 << 62;
}

/* Calls until the next timed one: uniform, so that no rhythm of the program's falls in with it. */
static uint32_t ticks(struct thread *mine)
{
    return (uint32_t)((draw(mine) >> 32) % (2 * LATENCY_PERIOD - 1));
}

static void begin(struct thread *mine)
{
    mine->begun = true;
    mine->id = (int)syscall(SYS_gettid);
    /* splitmix64 over what differs between threads and runs. */
    uint64_t x = clock_ns(CLOCK_MONOTONIC) ^ (uint64_t)mine->id << 40 ^ (uint64_t)(uintptr_t)mine;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9U;
    x = (x ^ x >> 27) * 0x94D049BB133111EBU;
    mine->random = (x ^ x >> 31) | 1;
    mine->interval = 0;
    mine->left = gap(mine);
    unwind_begin(mine);
}

void call_begin(struct call *call, enum operation operation, size_t bytes)
{
    struct thread *const mine = &thread;
    call->operation = operation;
    call->bytes = bytes;
    call->interval = call->start = 0;
    const int state = atomic_load_explicit(&probe.state, memory_order_acquire);
    if (state != RUNNING || mine->busy) {
        if (state == INERT) {
            mine->left = SIZE_MAX;
            mine->ticks = UINT32_MAX;
        }
        return;
    }
    mine->busy = true;
    const int error = errno;
    bool timed = mine->ticks == 0;
    if (!mine->begun) {
        begin(mine);
        timed = false;
    }
    const uint64_t interval = atomic_load_explicit(&probe.interval, memory_order_relaxed);
    if (mine->interval != interval) {
        mine->interval = interval;
        mine->left = gap(mine);
    }
    if (operation == ALLOCATING && bytes >= mine->left) {
        call->interval = mine->interval;
        mine->left = gap(mine);
    } else if (operation == ALLOCATING) {
        mine->left -= bytes + 1;
    }
    if (mine->ticks == 0) {
        mine->ticks = ticks(mine);
        listener_consider(mine->id == preload.owner);
    } else {
        mine->ticks--;
    }
    errno = error;
    mine->busy = false;
    if (timed && interval != 0)
        call->start = clock_ns(CLOCK_MONOTONIC);
}

/* An early block is a hit too, also where nothing is sampled and there is no table. */
bool remove_sampled(const void *block, struct live_block *old)
{
    return block != NULL && !thread.busy && filter_hit(block) &&
           atomic_load_explicit(&probe.state, memory_order_relaxed) == RUNNING &&
           live_remove((uintptr_t)block, old);
}

void call_free(struct call *call, void *block)
{
    if (block == NULL) {
        call->start = 0; /* it says nothing of the time that freeing takes */
        return;
    }
    struct live_block old;
    (void)remove_sampled(block, &old);
    if (call->start != 0) {
        call->bytes = next.malloc_usable_size(block);
        call->start = clock_ns(CLOCK_MONOTONIC);
    }
}

static void sampled(const struct call *call, void *block, const uintptr_t *frame)
{
    uintptr_t pcs[STACK_DEPTH];
    bool truncated = false;
    const uint32_t depth = unwind(frame, pcs, &truncated);
    const double p = -expm1(-((double)call->bytes + 1) / (double)call->interval);
    size_t usable = next.malloc_usable_size(block);
    if (usable == 0) /* a malloc that cannot tell */
        usable = call->bytes;
    const double size = (double)usable;
    struct stack *stack = stacks_of(pcs, depth, truncated);
    add_double(&stack->objects, 1 / p);
    add_double(&stack->bytes, size / p);
    add_double(&stack->variance, size * size * (1 - p) / (p * p));
    atomic_fetch_add_explicit(&stack->samples, 1, memory_order_relaxed);
    const struct live_block live = {
            .address = (uintptr_t)block,
            .usable = usable,
            .bytes = call->bytes,
            .interval = call->interval,
            .time = clock_ns(CLOCK_MONOTONIC),
            .share = size / p,
            .stack = stacks_id(stack),
            .thread = (uint32_t)thread.id,
    };
    live_insert(&live);
}

/* Rare enough to walk a stack: a stall has lasted longer than that takes. */
static void timed(
        struct thread *mine, const struct call *call, uint64_t nanoseconds, const uintptr_t *frame)
{
    const bool stalled = nanoseconds >= LATENCY_STALLED;
    if (!stalled && draw(mine) >> 32 >= (1ULL << 32) / LATENCY_STACKS)
        return;
    uintptr_t pcs[STACK_DEPTH];
    bool truncated = false;
    const uint32_t depth = unwind(frame, pcs, &truncated);
    struct stack_times *times = &stacks_of(pcs, depth, truncated)->times[call->operation];
    atomic_fetch_add_explicit(stalled ? &times->stalls : &times->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(
            stalled ? &times->stalled : &times->nanoseconds, nanoseconds, memory_order_relaxed);
}

void call_end(const struct call *call, void *block, const uintptr_t *frame)
{
    if (call->interval == 0 && call->start == 0)
        return;
    struct thread *const mine = &thread;
    const uint64_t end = call->start != 0 ? clock_ns(CLOCK_MONOTONIC) : 0;
    const int error = errno;
    mine->busy = true;
    if (call->start != 0)
        timed(mine, call, latency_add(call->operation, call->bytes, end - call->start), frame);
    /* An early block is not the next allocator's, which must not be asked for its size. */
    if (call->interval != 0 && block != NULL && !next_is_early(block))
        sampled(call, block, frame);
    mine->busy = false;
    errno = error;
}
