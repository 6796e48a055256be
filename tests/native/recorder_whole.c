// The whole recorder but its hooks, in a program of its own, so that a sanitizer can look at it: a
// sanitizer has a malloc of its own, which it takes no preload before. Threads record what they
// allocate and free, and hand blocks to each other; meanwhile recordings are begun, marked and ended.
// Prints how many events there are in the last one, which goes on to the program's end.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "large.h"
#include "recorder.h"
#include "sites.h"
#include "writer.h"

enum { THREADS = 8, ROUNDS = 3, CALLS = 6000, PLACES = 64, SITE_BYTES = 50000 };

static void *places[PLACES];
static pthread_mutex_t locks[PLACES];
static _Atomic uint64_t events;

static void check(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

// A block, which one of malloc's functions gives.
static void *allocate(unsigned way)
{
    if (way == 0) {
        uint32_t site = 0;
        const uintptr_t place = (uintptr_t)__builtin_return_address(0);
        void *large = large_allocate(SITE_BYTES, 0, place, &site);
        void *block = large != NULL ? large : malloc(SITE_BYTES);
        record_special(MALLOC, block, SITE_BYTES, 0, site);
        return block;
    }
    void *block = malloc(way * 10);
    if (way < 6)
        return record_allocation(way < 4 ? MALLOC : CALLOC, block, way * 10);
    record_special(ALIGNED, block, way * 10, 16, 0);
    return block;
}

static void release(void *block, bool sized)
{
    if (touches_may_be(block) && large_free(FREE, block, 0))
        return;
    record_free(sized ? FREE_SIZED : FREE, block, sized ? 8 : 0);
    free(block);
}

// Of a block that may be another thread's.
static void *resize(void *block)
{
    struct touched_block which;
    if (touches_may_be(block) && touches_is(block, &which))
        return large_realloc(block, 200, &which);
    const uint64_t before = stamp_of_free(block);
    void *moved = realloc(block, 200);
    record_realloc(before, block, moved, 200, 0);
    return moved;
}

static void change(void **place, uint64_t random)
{
    if (*place == NULL) {
        *place = allocate(random % 9);
    } else if (random % 5 == 0) {
        *place = resize(*place);
    } else {
        release(*place, random % 2 == 0);
        *place = NULL;
    }
    events++;
}

static void *work(void *seed)
{
    uint64_t random = (uintptr_t)seed * 0x9E3779B97F4A7C15U + 1;
    for (int i = 0; i < CALLS; i++) {
        random ^= random << 13; // xorshift64 (Marsaglia 2003)
        random ^= random >> 7;
        random ^= random << 17;
        const unsigned at = random % PLACES;
        pthread_mutex_lock(&locks[at]);
        change(&places[at], random >> 32);
        pthread_mutex_unlock(&locks[at]);
    }
    return NULL;
}

static void run_threads(uintptr_t seed)
{
    pthread_t threads[THREADS];
    char why[LONGEST_WHY];
    for (uintptr_t i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, work, (void *)(seed + i)) == 0, "no thread");
    }
    check(writer_ask(WRITER_MARK, "under way rss=1", why), why);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

int main(void)
{
    char why[LONGEST_WHY];
    for (int i = 0; i < PLACES; i++) {
        pthread_mutex_init(&locks[i], NULL);
    }
    for (uintptr_t round = 0; round < ROUNDS; round++) {
        run_threads(round * THREADS);
        pthread_t threads[2];
        // While two threads go on, it ends and begins.
        for (uintptr_t i = 0; i < 2; i++) {
            check(pthread_create(&threads[i], NULL, work, (void *)(100 + i)) == 0, "no thread");
        }
        check(writer_ask(WRITER_STOP, "", why), why);
        for (int i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
        }
        // What one recording has lost is not the next one's loss.
        atomic_fetch_add(&threads_dropped, 5);
        check(writer_ask(WRITER_START, "", why), why);
    }
    events = 0;
    run_threads(1000);
    printf("%lu\n", (unsigned long)events);
    return 0;
}
