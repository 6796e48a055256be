/* A test's preload: adds CPU to every malloc, and says at exit how much it added.
 *
 * DBALLOC_SPIN is the number of rounds of a loop that each call makes first. The effect on the CPU
 * of a transaction is known, so that tests can tell whether dballoc finds it. Every 1024th spin is
 * timed by the thread's own CPU clock, so that what the loop costs on a busy machine is told, not
 * what it costs on an idle one.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define TIMED_EVERY 1024

static unsigned long rounds;
static atomic_ullong calls, timed;
static atomic_llong timed_ns;
static _Thread_local unsigned int mine;

static long long thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (long long)now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void spin(unsigned long n)
{
    for (unsigned long i = 0; i < n; i++)
        __asm__ volatile("" ::: "memory");
}

/* The spin, timed, less what the two readings of the clock cost by themselves. */
static void timed_spin(void)
{
    (void)thread_ns(); /* the first is slower */
    const long long a = thread_ns();
    const long long b = thread_ns();
    spin(rounds);
    const long long c = thread_ns();
    atomic_fetch_add_explicit(&timed_ns, (c - b) - (b - a), memory_order_relaxed);
    atomic_fetch_add_explicit(&timed, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&calls, TIMED_EVERY, memory_order_relaxed);
}

EXPORT void *malloc(size_t size)
{
    static void *(*real)(size_t);
    if (real == NULL) {
        void *found = dlsym(RTLD_NEXT, "malloc");
        if (found == NULL)
            abort();
        *(void **)&real = found;
    }
    if (++mine % TIMED_EVERY == 0)
        timed_spin();
    else
        spin(rounds);
    return real(size);
}

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("DBALLOC_SPIN");
    rounds = text == NULL ? 0 : strtoul(text, NULL, 10);
}

__attribute__((destructor)) static void end(void)
{
    const unsigned long long n = atomic_load(&timed);
    const double each = n == 0 ? 0 : (double)atomic_load(&timed_ns) / (double)n;
    fprintf(stderr, "dballoc spin: %llu calls, %.1f ns each, %.6f s in all\n", atomic_load(&calls),
            each, (double)atomic_load(&calls) * each / 1e9);
}
