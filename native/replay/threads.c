#include "threads.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clocks.h"
#include "futex.h"
#include "memory.h"
#include "options.h"
#include "plan.h"
#include "report.h"

/* Address space of a stack, of which little is used; its lowest page is never touched. */
enum { STACK = 1024 * 1024 };

static unsigned char *stacks;
static _Atomic uint32_t alive;
static _Atomic uint32_t stay_word;
static pthread_mutex_t ended_lock = PTHREAD_MUTEX_INITIALIZER;
static struct runner *ended; /* and not joined */
static uint32_t fresh_stack;

void threads_begin(void)
{
    /* One more for the helper. */
    stacks = memory_map(options.alive + 1, STACK);
}

uint32_t threads_alive(void)
{
    return atomic_load(&alive);
}

static pthread_t create(uint32_t stack, void *(*run)(void *), void *argument)
{
    pthread_attr_t attributes;
    pthread_t thread = {0};
    unsigned char *lowest = stacks + (size_t)stack * STACK;
    size_t guard = (size_t)sysconf(_SC_PAGESIZE);
    int error = pthread_attr_init(&attributes);
    if (error == 0)
        error = pthread_attr_setstack(&attributes, lowest + guard, STACK - guard);
    if (error == 0)
        error = pthread_create(&thread, &attributes, run, argument);
    if (error != 0)
        fail(error, "cannot create a thread");
    (void)pthread_attr_destroy(&attributes);
    return thread;
}

static uint32_t take_fresh_stack(void)
{
    if (fresh_stack > options.alive) {
        refuse("the trace has more than %llu threads at once, which is all that are allowed; take "
               "a stretch of it (dballoc trace cut)",
                (unsigned long long)options.alive);
    }
    uint32_t stack = fresh_stack++;
    if (mprotect(stacks + (size_t)stack * STACK, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE) != 0)
        fail(errno, "cannot protect the end of a stack");
    return stack;
}

/* A stack that nobody uses: of a thread that has ended, else a fresh one. */
static uint32_t take_stack(void)
{
    (void)pthread_mutex_lock(&ended_lock);
    struct runner *runner = ended;
    uint32_t stack = 0;
    if (runner) {
        ended = runner->next_ended;
    } else {
        stack = take_fresh_stack();
    }
    (void)pthread_mutex_unlock(&ended_lock);
    if (runner) {
        (void)pthread_join(runner->thread, NULL);
        stack = runner->stack;
    }
    return stack;
}

pthread_t threads_begin_helper(void *(*run)(void *))
{
    return create(take_fresh_stack(), run, NULL);
}

/* Note what the kernel has counted for this thread since the beginning. */
static void note_usage(struct runner *runner, uint64_t cpu, const struct rusage *before)
{
    struct rusage after = {0};
    (void)getrusage(RUSAGE_THREAD, &after);
    uint64_t total = clock_cpu() - cpu;
    /* More is outside, by what was not quite measured, only of a thread that does nothing else. */
    runner->cpu = total > runner->cpu_outside ? total - runner->cpu_outside : 0;
    runner->minor_faults = (uint64_t)(after.ru_minflt - before->ru_minflt);
    runner->major_faults = (uint64_t)(after.ru_majflt - before->ru_majflt);
}

static void end_run(void)
{
    if (atomic_fetch_sub(&alive, 1) == 1)
        futex_wake(&alive, 1);
}

static void run_recorded(struct runner *runner)
{
    struct rusage before = {0};
    (void)getrusage(RUSAGE_THREAD, &before);
    uint64_t cpu = clock_cpu();
    runner_run(runner);
    note_usage(runner, cpu, &before);
}

static void *run_created(void *argument)
{
    struct runner *runner = argument;
    runner->thread = pthread_self();
    run_recorded(runner);
    bool stays = plan.threads[runner - runners].flags & THREAD_STAYS;
    if (!stays) {
        (void)pthread_mutex_lock(&ended_lock);
        runner->next_ended = ended;
        ended = runner;
        (void)pthread_mutex_unlock(&ended_lock);
    }
    end_run();
    if (stays) {
        for (;;)
            futex_wait(&stay_word, 0);
    }
    return NULL;
}

void threads_create(uint32_t number)
{
    struct runner *runner = &runners[number];
    atomic_fetch_add(&alive, 1);
    runner->stack = take_stack();
    (void)create(runner->stack, run_created, runner);
}

void threads_run_here(uint32_t number)
{
    atomic_fetch_add(&alive, 1);
    run_recorded(&runners[number]);
    end_run();
}

void threads_wait_for_all(void)
{
    for (uint32_t count = 0; (count = atomic_load(&alive)) > 0;)
        futex_wait(&alive, count);
    /* Nobody is left who could add to the list. */
    (void)pthread_mutex_lock(&ended_lock);
    struct runner *runner = ended;
    ended = NULL;
    (void)pthread_mutex_unlock(&ended_lock);
    for (; runner; runner = runner->next_ended)
        (void)pthread_join(runner->thread, NULL);
}
