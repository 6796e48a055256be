// So many pairs of malloc and free of a server's small sizes, from one thread; prints nanoseconds
// of CPU time a pair.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

int main(int argc, char **argv)
{
    long pairs = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    static void *live[LIVE];
    uint64_t random = 88172645463325252;
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
            return 1;
        }
        *(volatile char *)*slot = 1;
    }
    printf("%.3f\n", (cpu_seconds() - began) / (double)pairs * 1e9);
    return 0;
}
