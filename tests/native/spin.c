/* A test's preload: adds CPU to every malloc, and says at exit how much it added.
 *
 * DBALLOC_SPIN is the number of rounds of a loop that each call makes first; with DBALLOC_SPIN_LOCK
 * all threads make it one at a time, under one mutex. The effect on the CPU
 * of a transaction is known, so that tests can tell whether dballoc finds it. Every 1024th call
 * is timed, so that what the loop costs beside a server's own work is told, not what it costs
 * alone; short loops are made up to 16 times for it, so that the clock's own cost is a small part
 * of what it reads.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define TIMED_EVERY 1024
#define TIMED_ROUNDS 16000
#define MOST_TIMED_SPINS 16
/* A reading this long is of a thread that lost its CPU in between, if the rounds take a tenth. */
#define LONGEST_NS 100000

static unsigned long rounds, timed_spins = 1;
static int locks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_ullong spins, timed;
static atomic_llong timed_ns;
static _Thread_local unsigned int mine;

static long long read_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* no system call, unlike the thread's CPU clock */
    return (long long)now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void spin(unsigned long n)
{
    for (unsigned long i = 0; i < n; i++)
        __asm__ volatile("" ::: "memory");
}

/* Spins, timed, less what the two readings of the clock cost by themselves. */
static void spin_timed(void)
{
    (void)read_ns(); /* the first is slower */
    const long long a = read_ns();
    const long long b = read_ns();
    for (unsigned long i = 0; i < timed_spins; i++)
        spin(rounds);
    const long long c = read_ns();
    if (c - a < LONGEST_NS) {
        atomic_fetch_add_explicit(&timed_ns, (c - b) - (b - a), memory_order_relaxed);
        atomic_fetch_add_explicit(&timed, timed_spins, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&spins, TIMED_EVERY - 1 + timed_spins, memory_order_relaxed);
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
    if (locks)
        pthread_mutex_lock(&lock);
    if (++mine % TIMED_EVERY == 0)
        spin_timed();
    else
        spin(rounds);
    if (locks)
        pthread_mutex_unlock(&lock);
    return real(size);
}

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("DBALLOC_SPIN");
    rounds = text == NULL ? 0 : strtoul(text, NULL, 10);
    if (rounds * MOST_TIMED_SPINS <= TIMED_ROUNDS)
        timed_spins = MOST_TIMED_SPINS;
    else if (rounds < TIMED_ROUNDS)
        timed_spins = TIMED_ROUNDS / rounds;
    locks = getenv("DBALLOC_SPIN_LOCK") != NULL;
}

__attribute__((destructor)) static void end(void)
{
    const unsigned long long n = atomic_load(&timed);
    const double each = n == 0 ? 0 : (double)atomic_load(&timed_ns) / (double)n;
    fprintf(stderr, "dballoc spin: %llu spins, %.1f ns each, %.6f s in all\n", atomic_load(&spins),
            each, (double)atomic_load(&spins) * each / 1e9);
}
