/* xmalloc THREADS BATCHES: half of the threads allocate, the other half free what those have
 * allocated, batch by batch through a queue that all share (after Lever and Boreham, "malloc()
 * performance in a multithreaded Linux environment", 2000). So every block changes threads. Prints
 * the calls of malloc. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

enum { BATCH = 120, LONGEST_QUEUE = 64 };

static const size_t sizes[] = {8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 400, 800, 1500};

struct batch {
    struct batch *next;
    char *blocks[BATCH];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct batch *queue;
static long length, batches, producers;

static void put(struct batch *batch)
{
    (void)pthread_mutex_lock(&lock);
    while (length >= LONGEST_QUEUE)
        (void)pthread_cond_wait(&changed, &lock);
    batch->next = queue;
    queue = batch;
    length++;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

/* NULL when there will be no more. */
static struct batch *take(void)
{
    (void)pthread_mutex_lock(&lock);
    while (!queue && producers > 0)
        (void)pthread_cond_wait(&changed, &lock);
    struct batch *batch = queue;
    if (batch) {
        queue = batch->next;
        length--;
        (void)pthread_cond_broadcast(&changed);
    }
    (void)pthread_mutex_unlock(&lock);
    return batch;
}

static void *produce(void *argument)
{
    uint64_t random = (uint64_t)(size_t)argument + 1;
    for (long i = 0; i < batches; i++) {
        struct batch *batch = malloc(sizeof *batch);
        if (!batch)
            abort();
        for (int k = 0; k < BATCH; k++) {
            size_t size = sizes[draw_below(&random, sizeof sizes / sizeof *sizes)];
            batch->blocks[k] = malloc(size);
            if (!batch->blocks[k])
                abort();
            memset(batch->blocks[k], 1, size);
        }
        put(batch);
    }
    (void)pthread_mutex_lock(&lock);
    producers--;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
    return NULL;
}

static void *consume(void *unused)
{
    for (struct batch *batch = NULL; (batch = take());) {
        for (int k = 0; k < BATCH; k++)
            free(batch->blocks[k]);
        free(batch);
    }
    return unused;
}

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    long threads = atol(words[1]) / 2;
    batches = atol(words[2]);
    pthread_t *others = calloc(2 * (size_t)threads, sizeof *others);
    if (!others || threads < 1)
        return 1;
    producers = threads;
    for (long i = 0; i < 2 * threads; i++)
        if (pthread_create(&others[i], NULL, i < threads ? produce : consume, (void *)i) != 0)
            return 1;
    for (long i = 0; i < 2 * threads; i++)
        (void)pthread_join(others[i], NULL);
    (void)printf("%ld\n", threads * batches * (BATCH + 1));
    free(others);
    return 0;
}
