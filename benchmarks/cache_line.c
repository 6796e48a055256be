// What it takes to move a cache line from one CPU to another: nanoseconds of a read of a line that
// another CPU has just written, and of an exchange in a line that another CPU has just read. Two
// threads, each on a CPU of its own, take turns over LINES lines; each read waits for the one before.
// Prints the least and the median of ROUNDS rounds of each: the least is without other work's part.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LINES = 512, ROUNDS = 301 };

struct line {
    _Alignas(64) _Atomic uint64_t next; // number of the line that is read after this one
};

static struct line lines[LINES];
static uint64_t order[LINES];
static pthread_barrier_t turn;
static double reads[ROUNDS], exchanges[ROUNDS];

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

// False if there is no such CPU for us.
static int stay_on(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

// A cycle through all lines, in which no line is beside the one before, so that none is prefetched.
static void draw_order(void)
{
    uint64_t random = 88172645463325252;
    for (uint64_t i = 0; i < LINES; i++) {
        order[i] = i;
    }
    for (uint64_t i = LINES - 1; i > 0; i--) {
        random ^= random << 13; // xorshift64 (Marsaglia 2003)
        random ^= random >> 7;
        random ^= random << 17;
        const uint64_t other = random % (i + 1);
        const uint64_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

static void *write_lines(void *cpu)
{
    if (!stay_on((int)(intptr_t)cpu)) {
        exit(1);
    }
    for (int round = 0; round < ROUNDS; round++) {
        const double began = now_ns();
        for (uint64_t i = 0; i < LINES; i++) {
            (void)atomic_exchange(&lines[order[i]].next, order[(i + 1) % LINES]);
        }
        exchanges[round] = (now_ns() - began) / LINES;
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
    }
    return NULL;
}

static void read_lines(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&turn);
        uint64_t at = order[0];
        const double began = now_ns();
        for (int i = 0; i < LINES; i++) {
            at = atomic_load_explicit(&lines[at].next, memory_order_relaxed);
        }
        reads[round] = (now_ns() - began) / LINES;
        if (at != order[0]) {
            exit(1);
        }
        pthread_barrier_wait(&turn);
    }
}

static int compare(const void *a, const void *b)
{
    const double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

static void print_figures(const char *name, double *figures)
{
    qsort(figures, ROUNDS, sizeof *figures, compare);
    printf("%s %.1f %.1f\n", name, figures[0], figures[ROUNDS / 2]);
}

int main(void)
{
    cpu_set_t all;
    int cpus[2];
    int count = 0;
    pthread_t writer;
    if (sched_getaffinity(0, sizeof all, &all) != 0) {
        return 1;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE && count < 2; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            cpus[count++] = cpu;
        }
    }
    if (count < 2) {
        fprintf(stderr, "there is one CPU\n");
        return 2;
    }
    draw_order();
    pthread_barrier_init(&turn, NULL, 2);
    if (!stay_on(cpus[1]) ||
            pthread_create(&writer, NULL, write_lines, (void *)(intptr_t)cpus[0]) != 0) {
        return 1;
    }
    read_lines();
    pthread_join(writer, NULL);
    exchanges[0] = exchanges[1]; // nobody had read them before the first round
    print_figures("read", reads);
    print_figures("exchange", exchanges);
    return 0;
}
