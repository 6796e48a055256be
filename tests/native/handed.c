/* Threads that hand blocks round: each allocates blocks of its own sizes and frees those of the one
 * before it, but for every tenth. Prints what it knows of its blocks, all of sizes 7 modulo 1000:
 * how many were allocated, how many were freed by another thread, the bytes that are left, and the
 * bytes at a peak that one thread made alone. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 8, BLOCKS = 500 };

static void *blocks[THREADS][BLOCKS];
static pthread_barrier_t barrier;

static size_t size_of(size_t thread, size_t block)
{
    return 1000 * (1 + (thread * 7 + block) % 90) + 7;
}

static void *run(void *argument)
{
    size_t self = (size_t)argument, previous = (self + THREADS - 1) % THREADS;
    for (size_t i = 0; i < BLOCKS; i++) {
        void *volatile block = malloc(24);
        blocks[self][i] = i % 3 ? malloc(size_of(self, i)) : realloc(block, size_of(self, i));
        if (i % 3)
            free(block);
        if (!blocks[self][i])
            abort();
    }
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < BLOCKS; i++)
        if (i % 10)
            free(blocks[previous][i]);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    size_t left = 0, foreign = 0;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run, (void *)i))
            abort();
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (size_t thread = 0; thread < THREADS; thread++)
        for (size_t i = 0; i < BLOCKS; i++)
            if (i % 10)
                foreign++;
            else
                left += size_of(thread, i);
    char *volatile first = malloc(100000007);
    char *volatile second = malloc(200000007);
    free(first);
    first = malloc(7);
    if (!first || !second)
        abort();
    printf("%d %zu %zu %zu\n", THREADS * BLOCKS + 3, foreign, left + 200000007 + 7,
            left + 300000014);
    return 0;
}
