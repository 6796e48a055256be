// So many pairs of malloc and free of a server's small sizes, from one thread or so many; prints
// nanoseconds of their CPU time a pair. With a number of threads, it also prints those of all the
// process's, and the most resident memory, in KiB.

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LIVE = 1024 };

static double cpu_seconds(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)) {
        exit(1);
    }
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static long pairs;
static double nanoseconds[256];

static void *work(void *number)
{
    void *live[LIVE] = {NULL};
    uint64_t random = 88172645463325252 + (uint64_t)(uintptr_t)number;
    double began = cpu_seconds();
    for (long i = 0; i < pairs; i++) {
        random ^= random << 13; // xorshift64 (Marsaglia 2003)
        random ^= random >> 7;
        random ^= random << 17;
        // 16 to 2047 bytes, each power of two as often as another.
        size_t size = (16 + (random >> 32 & 15)) << (random >> 40 & 7) >> (random >> 50 & 1);
        void **slot = &live[random & (LIVE - 1)];
        free(*slot);
        *slot = malloc(size);
        if (!*slot) {
            exit(1);
        }
        *(volatile char *)*slot = 1;
    }
    nanoseconds[(uintptr_t)number] = (cpu_seconds() - began) / (double)pairs * 1e9;
    return NULL;
}

static void print_most_memory(void)
{
    static char text[1 << 14];
    FILE *status = fopen("/proc/self/status", "r");
    if (!status || fread(text, 1, sizeof text - 1, status) == 0 || !strstr(text, "VmHWM:")) {
        exit(1);
    }
    printf("%ld\n", strtol(strstr(text, "VmHWM:") + 6, NULL, 10));
    fclose(status);
}

int main(int argc, char **argv)
{
    pairs = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    long count = argc > 2 ? strtol(argv[2], NULL, 10) : 1;
    pthread_t threads[256];
    double sum = 0;
    if (count < 1 || count > 256) {
        return 2;
    }
    for (intptr_t i = 1; i < count; i++) {
        if (pthread_create(&threads[i], NULL, work, (void *)i)) {
            return 1;
        }
    }
    work(NULL);
    for (long i = 1; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    for (long i = 0; i < count; i++) {
        sum += nanoseconds[i];
    }
    printf("%.3f\n", sum / (double)count);
    if (argc > 2) {
        struct timespec all;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
        printf("%.3f\n",
                ((double)all.tv_sec * 1e9 + (double)all.tv_nsec) / (double)(pairs * count));
        print_most_memory();
    }
    return 0;
}
