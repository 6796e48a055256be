// The probe's tables alone, under a sanitizer: threads that insert and take out their own blocks
// while another reads all.
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "live.h"
#include "preload.h"
#include "stacks.h"

const char preload_name[] = "tables";

enum { THREADS = 8, MINE = 500, ROUNDS = 20 };

static _Atomic int running = THREADS;

static void check(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

static void *work(void *argument)
{
    const uint64_t number = (uint64_t)(uintptr_t)argument;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (uint64_t i = 0; i < MINE; i++) {
            const uintptr_t pcs[] = {0x1000 + i % 50, 0x2000 + number % 3, 0x3000};
            struct stack *stack = stacks_of(pcs, 3, false);
            atomic_fetch_add(&stack->samples, 1);
            const struct live_block block = {
                    .address = (number << 32) + i * 16 + 16,
                    .usable = i + 1,
                    .bytes = i,
                    .interval = 1024,
                    .time = number,
                    .share = 1,
                    .stack = stacks_id(stack),
                    .thread = (uint32_t)number,
            };
            live_insert(&block);
        }
        const uint64_t left = round == ROUNDS - 1 ? MINE / 2 : MINE;
        for (uint64_t i = 0; i < left; i++) {
            struct live_block block;
            check(live_remove((number << 32) + i * 16 + 16, &block), "a block is not there");
            check(block.usable == i + 1 && block.thread == number, "a block is another's");
            check(!live_remove(block.address, &block), "a block is there twice");
        }
    }
    running--;
    return NULL;
}

static uint64_t count_all(void)
{
    uint32_t cursor = 0;
    uint64_t found = 0;
    struct live_block block;
    for (; live_next(&cursor, &block); found++)
        check(block.time == block.address >> 32 &&
                        block.usable == (block.address & 0xffffffff) / 16,
                "a torn block");
    return found;
}

int main(void)
{
    check(live_begin() && stacks_begin(), "no memory");
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        check(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0, "no thread");
    while (running > 0)
        (void)count_all();
    for (int i = 0; i < THREADS; i++)
        check(pthread_join(threads[i], NULL) == 0, "no end");
    check(count_all() == (uint64_t)THREADS * (MINE - MINE / 2), "not all that is alive is there");
    uint64_t samples = 0;
    uint64_t stacks = 0;
    uint32_t cursor = 0;
    for (struct stack *s = stacks_next(&cursor); s != NULL; s = stacks_next(&cursor), stacks++)
        samples += s->samples;
    check(samples == (uint64_t)THREADS * MINE * ROUNDS, "samples of stacks are missing");
    check(stacks == 50 * 3 + 1, "a stack is there twice");
    check(live_totals.lost == 0 && stacks_lost == 0, "some had no room");
    check(fabs(live_totals.bytes - THREADS * (MINE - MINE / 2)) < 1e-6, "the sum is wrong");
    puts("fine");
    return 0;
}
