/* mstress THREADS ROUNDS BLOCKS: threads that keep some of what they allocate, and now and then swap
 * a block with one that any other thread has left (in the manner of mimalloc's stress test). All
 * threads end after each round; what they have left is freed by those of the next. Prints the calls
 * of malloc. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

enum { LEFT = 1000 };

static _Atomic(char *) left[LEFT];
static _Atomic unsigned long total;
static long blocks, round_number;

static char *allocate(uint64_t *random)
{
    /* Mostly small, seldom large: one in a hundred a hundred times as large. */
    size_t size = 8 + 8 * draw_below(random, 64);
    if (draw_below(random, 100) == 0)
        size *= 100;
    char *block = draw_below(random, 4) == 0 ? calloc(1, size) : malloc(size);
    if (!block)
        abort();
    memset(block, 1, size);
    atomic_fetch_add_explicit(&total, 1, memory_order_relaxed);
    return block;
}

static void *run(void *argument)
{
    uint64_t random = (uint64_t)(size_t)argument * 1000 + (uint64_t)round_number + 1;
    size_t room = (size_t)blocks / 4 + 1;
    char **kept = calloc(room, sizeof *kept);
    if (!kept)
        abort();
    for (long i = 0; i < blocks; i++) {
        char *block = allocate(&random);
        uint64_t choice = draw_below(&random, 10);
        if (choice < 4) {
            size_t at = draw_below(&random, room);
            free(kept[at]);
            kept[at] = block;
        } else if (choice == 4) {
            free(atomic_exchange(&left[draw_below(&random, LEFT)], block));
        } else {
            free(block);
        }
    }
    for (size_t i = 0; i < room; i++)
        free(kept[i]);
    free(kept);
    return NULL;
}

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    long threads = atol(words[1]);
    long rounds = atol(words[2]);
    blocks = atol(words[3]);
    pthread_t *others = calloc((size_t)threads, sizeof *others);
    if (!others)
        return 1;
    for (round_number = 0; round_number < rounds; round_number++) {
        for (long i = 0; i < threads; i++)
            if (pthread_create(&others[i], NULL, run, (void *)i) != 0)
                return 1;
        for (long i = 0; i < threads; i++)
            (void)pthread_join(others[i], NULL);
    }
    for (int i = 0; i < LEFT; i++)
        free(left[i]);
    (void)printf("%lu\n", (unsigned long)total);
    free(others);
    return 0;
}
