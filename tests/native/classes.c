// A process of known memory, class by class: classes FILE. Prints a line "NAME BYTES" for each
// class, "ready", and waits until standard input ends. Every class is large, so that what libc and
// the loader have beside it is well below half a per cent.
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STACKS = 8, BLOCKS = 6000, LARGE = 5 };
// A chunk of 10,000 bytes: what was asked for, and its size word.
static const size_t CHUNK = 10000, MAPPED = 8 << 20, STACK = 5 << 20, OWN = 32 << 20, PAGE = 4096;

static pthread_barrier_t ready;

static void *stack(void *argument)
{
    volatile char used[STACK];
    for (size_t i = 0; i < sizeof used; i += PAGE) {
        used[i] = 1;
    }
    pthread_barrier_wait(&ready);
    pause();
    return argument;
}

// An arena of its own, half of whose chunks are freed: holes, for each has a neighbour that lives.
static void *holes(void *argument)
{
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(CHUNK - sizeof(size_t));
        if (blocks[i] == NULL) {
            abort();
        }
        memset(blocks[i], 1, CHUNK - sizeof(size_t));
    }
    for (int i = 0; i < BLOCKS; i += 2) {
        free(blocks[i]);
    }
    pthread_barrier_wait(&ready);
    pause();
    return argument;
}

static char *own(size_t size, int advice)
{
    const size_t huge = 2 << 20;
    char *start = mmap(NULL, size + 2 * huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) {
        abort();
    }
    // Aligned, and inaccessible on both sides: no neighbour is merged with it.
    start += huge - (uintptr_t)start % huge;
    if (mprotect(start, size, PROT_READ | PROT_WRITE) != 0 || madvise(start, size, advice) != 0) {
        abort();
    }
    memset(start, 1, size);
    return start;
}

int main(int count, char **words)
{
    (void)count;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 8 << 20);
    pthread_barrier_init(&ready, NULL, STACKS + 2);
    pthread_t thread;
    if (pthread_create(&thread, NULL, holes, NULL) != 0) {
        return 1;
    }
    for (int i = 0; i < STACKS; i++) {
        if (pthread_create(&thread, &attributes, stack, NULL) != 0) {
            return 1;
        }
    }
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    for (int i = 0; i < LARGE; i++) {
        char *large = malloc(MAPPED);
        if (large == NULL) {
            return 1;
        }
        memset(large, 1, MAPPED);
    }
    FILE *file = fopen(words[1], "w+");
    if (file == NULL || ftruncate(fileno(file), (off_t)OWN) != 0) {
        return 1;
    }
    const volatile char *shared =
            mmap(NULL, OWN, PROT_READ, MAP_SHARED | MAP_POPULATE, fileno(file), 0);
    if (shared == MAP_FAILED) {
        return 1;
    }
    for (size_t i = 0; i < OWN; i += PAGE) {
        (void)shared[i];
    }
    own(OWN, MADV_NOHUGEPAGE);
    own(OWN, MADV_HUGEPAGE);
    if (madvise(own(OWN, MADV_NOHUGEPAGE), OWN, MADV_FREE) != 0) {
        return 1;
    }
    pthread_barrier_wait(&ready);
    printf("live %zu\n", BLOCKS / 2 * CHUNK);
    printf("held %zu\n", BLOCKS / 2 * CHUNK);
    printf("large %zu\n", LARGE * (MAPPED + PAGE));
    printf("stacks %zu\n", STACKS * STACK);
    printf("file %zu\n", OWN);
    printf("own %zu\n", 2 * OWN);
    printf("huge %zu\n", OWN);
    printf("lazy %zu\n", OWN);
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
}
