// A thread's buffer while something else records in the middle of a call: what the recorder starts
// for itself, and, on x86-64, a signal handler after each instruction of the quick way (the
// processor's trap flag sends SIGTRAP). No record may begin where a buffer has no room for it.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

#include "listener.h"
#include "preload.h"
#include "recorder.h"
#include "writer.h"

enum { STEPS = 200, TRAP_FLAG = 0x100 };

const char preload_name[] = "room";
struct preload preload;

static bool fills_when_considered;
static const unsigned char *filled_to;
static const struct buffer *filled;

static void check(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

// Records until the buffer has no room for another record.
static void fill(void)
{
    const uint64_t generation = recorder_generation();
    do {
        record_call(generation, FREE, stamp_now(), &filled, 0);
    } while (thread.end - thread.encoder.at >= LONGEST_RECORD);
    filled = thread.buffer;
    filled_to = thread.encoder.at;
}

static void check_filled(const char *what)
{
    check(filled == NULL || thread.buffer != filled || thread.encoder.at == filled_to, what);
    filled = NULL;
}

bool recorder_begin(void)
{
    return false;
}

void writer_wake(void)
{
}

void listener_start(void)
{
}

void listener_consider(bool is_first_thread)
{
    (void)is_first_thread;
    if (fills_when_considered) {
        fills_when_considered = false;
        fill();
    }
}

static void check_what_starts(void)
{
    fills_when_considered = true;
    record_call(recorder_generation(), MALLOC, stamp_now(), &preload, 100);
    check(filled != NULL, "nothing was considered");
    check_filled("a record without room after what the recorder started");
}

// Its block was free before the buffer began.
static void check_freeing_realloc(void)
{
    const uint64_t before = stamp_now();
    while (stamp_now() <= before + 100) {
    }
    recording.generation += 2;
    record_freeing_realloc(recorder_generation(), before, &preload);
    check(thread.buffer->first == before, "a free later than it was");
}

#if defined __x86_64__
static volatile sig_atomic_t steps_left;

static void handle(int number, siginfo_t *information, void *context)
{
    (void)number;
    (void)information;
    ucontext_t *const interrupted = context;
    if (steps_left-- > 0)
        return;
    interrupted->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
    if (thread.busy == 0)
        fill();
}

static void check_each_step(void)
{
    int between = 0;
    const struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    check(sigaction(SIGTRAP, &action, NULL) == 0, "no handler");
    for (int step = 0; step < STEPS; step++) {
        const uint64_t generation = recorder_generation();
        steps_left = step;
        __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | TRAP_FLAG);
        (void)record_block(&preload, 100, MALLOC, generation);
        __builtin_ia32_writeeflags_u64(
                __builtin_ia32_readeflags_u64() & ~(unsigned long long)TRAP_FLAG);
        between += filled != NULL;
        check_filled("a record without room after a handler's");
        record_call(generation, FREE, stamp_now(), &preload, 0); // the next call finds room
    }
    check(between > 0 && between < STEPS, "the handler did not come between");
}
#else
static void check_each_step(void)
{
}
#endif

int main(void)
{
    preload.owner = getpid();
    stamp_begin();
    recorder_look_at_processor();
    check(buffers_begin() && threads_begin(), "no memory");
    recording.generation = 1;
    check_what_starts();
    check_freeing_realloc();
    check_each_step();
    return 0;
}
