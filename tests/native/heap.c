// A heap of known shape: threads with arenas of their own, blocks of many sizes, half of them
// freed, some mapped by themselves. Prints malloc_info(3) on standard output, a line "ready", and
// waits until standard input ends.
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 6, BLOCKS = 20000, LARGE = 5 };

static pthread_barrier_t filled;
static char output[1 << 16];

static void *fill(void *argument)
{
    unsigned seed = (unsigned)(size_t)argument;
    void **blocks = calloc(BLOCKS, sizeof(void *));
    if (!blocks) {
        abort();
    }
    for (int i = 0; i < BLOCKS; i++) {
        size_t size = 1U << (rand_r(&seed) % 11);
        blocks[i] = malloc(size + rand_r(&seed) % 64);
        if (!blocks[i]) {
            abort();
        }
        memset(blocks[i], 1, size);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (rand_r(&seed) % 2) {
            free(blocks[i]);
        }
    }
    for (int i = 0; i < LARGE; i++) {
        char *large = malloc((1U << 20) + (size_t)i * 70000);
        if (!large) {
            abort();
        }
        memset(large, 1, 600000);
    }
    pthread_barrier_wait(&filled);
    pause();
    return NULL;
}

int main(void)
{
    mallopt(M_MMAP_THRESHOLD, 1 << 19);
    setvbuf(stdout, output, _IOFBF, sizeof output);
    pthread_barrier_init(&filled, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, fill, (void *)(i + 1)) != 0) {
            return 1;
        }
    }
    pthread_barrier_wait(&filled);
    malloc_info(0, stdout);
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
}
