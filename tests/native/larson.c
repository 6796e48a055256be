/* larson THREADS BLOCKS ROUNDS CALLS: a server's threads that come and go (after Larson and
 * Krishnan, "Memory allocation for long-running server applications", 1998). Each thread has an
 * array of blocks; it frees one at random and allocates another, CALLS times; then it ends, and a
 * new thread goes on with its array, ROUNDS times: so blocks are freed by others than allocated
 * them. Prints the calls of malloc. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

enum { SMALLEST = 16, LARGEST = 1008 };

struct array {
    char **blocks;
    uint64_t random, calls;
};

static long blocks, rounds, calls;

static void replace(struct array *array, long at)
{
    size_t size = SMALLEST + draw_below(&array->random, LARGEST - SMALLEST);
    free(array->blocks[at]);
    array->blocks[at] = malloc(size);
    if (!array->blocks[at])
        abort();
    memset(array->blocks[at], 1, size);
    array->calls++;
}

static void *run_round(void *argument)
{
    struct array *array = argument;
    for (long i = 0; i < calls; i++)
        replace(array, (long)draw_below(&array->random, (uint64_t)blocks));
    return NULL;
}

/* One array's threads, one after another. */
static void *run_array(void *argument)
{
    struct array *array = argument;
    for (long i = 0; i < blocks; i++)
        replace(array, i);
    for (long round = 0; round < rounds; round++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run_round, array) != 0)
            abort();
        (void)pthread_join(thread, NULL);
    }
    for (long i = 0; i < blocks; i++)
        free(array->blocks[i]);
    return NULL;
}

int main(int count, char **words)
{
    if (count != 5)
        return 2;
    long threads = atol(words[1]);
    blocks = atol(words[2]);
    rounds = atol(words[3]);
    calls = atol(words[4]);
    struct array *arrays = calloc((size_t)threads, sizeof *arrays);
    pthread_t *others = calloc((size_t)threads, sizeof *others);
    if (!arrays || !others)
        return 1;
    uint64_t total = 0;
    for (long i = 0; i < threads; i++) {
        arrays[i].random = (uint64_t)i + 1;
        arrays[i].blocks = calloc((size_t)blocks, sizeof *arrays[i].blocks);
        if (!arrays[i].blocks || pthread_create(&others[i], NULL, run_array, &arrays[i]) != 0)
            return 1;
    }
    for (long i = 0; i < threads; i++) {
        (void)pthread_join(others[i], NULL);
        total += arrays[i].calls;
        free(arrays[i].blocks);
    }
    (void)printf("%lu\n", (unsigned long)total);
    free(arrays);
    free(others);
    return 0;
}
