// Calls dballoc_malloc_stats as fast as it can, as accounts of a server may: hammer LIBRARY THREADS
// MILLISECONDS. Prints the calls, malloc's own ones among them (slow_statistics.c counts them), the
// milliseconds, how often a thread that allocates went round in that time, and in as long beside
// threads that do the same without the call itself; and then the last text.
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../native/udf/abi.h"

enum { MOST = 16, BLOCKS = 4000 };

static bool (*init)(struct udf *udf, struct udf_arguments *arguments, char *message);
static void (*deinit)(struct udf *udf);
static char *(*stats)(struct udf *udf, struct udf_arguments *arguments, char *result,
        unsigned long *length, char *is_null, char *error);
static atomic_bool busy, calling, allocating;
static atomic_long calls, rounds;
static char *last;
static unsigned long last_length;

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return found;
}

static void *call(void *keep)
{
    while (atomic_load(&busy)) {
        struct udf udf = {.maybe_null = true};
        struct udf_arguments arguments = {.count = 0};
        char message[UDF_MESSAGE], result[255], is_null = 0, error = 0;
        unsigned long length = 0;
        if (init(&udf, &arguments, message))
            exit(1);
        if (atomic_load(&calling)) {
            const char *text = stats(&udf, &arguments, result, &length, &is_null, &error);
            if (is_null || error || text[0] != '{' || text[length - 1] != '}')
                exit(2);
            if (keep != NULL) {
                last = realloc(last, length);
                memcpy(last, text, length);
                last_length = length;
            }
            atomic_fetch_add(&calls, 1);
        }
        deinit(&udf);
    }
    return NULL;
}

// Of a size that no thread's cache holds, so that each takes the lock of its arena.
static void *allocate(void *argument)
{
    static void *blocks[BLOCKS];
    while (atomic_load(&allocating)) {
        for (int i = 0; i < BLOCKS; i++)
            blocks[i] = malloc(2000 + (size_t)i % 64 * 16);
        for (int i = 0; i < BLOCKS; i++)
            free(blocks[i]);
        atomic_fetch_add(&rounds, 1);
    }
    return argument;
}

static long went_round(long milliseconds)
{
    const long before = atomic_load(&rounds);
    const struct timespec time = {
            .tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
    return atomic_load(&rounds) - before;
}

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL),
         *found = symbol(library, "dballoc_malloc_stats_init");
    memcpy(&init, &found, sizeof found);
    found = symbol(library, "dballoc_malloc_stats");
    memcpy(&stats, &found, sizeof found);
    found = symbol(library, "dballoc_malloc_stats_deinit");
    memcpy(&deinit, &found, sizeof found);
    const atomic_int *real_calls = symbol(RTLD_DEFAULT, "malloc_info_calls");
    const long threads = strtol(words[2], NULL, 10), milliseconds = strtol(words[3], NULL, 10);

    pthread_t allocator, callers[MOST];
    atomic_store(&allocating, true);
    pthread_create(&allocator, NULL, allocate, NULL);
    atomic_store(&busy, true);
    for (long i = 0; i < threads && i < MOST; i++)
        pthread_create(&callers[i], NULL, call, i == 0 ? words : NULL);
    const long without = went_round(milliseconds);
    atomic_store(&calling, true);
    const long began = now();
    const long beside = went_round(milliseconds);
    atomic_store(&busy, false);
    for (long i = 0; i < threads && i < MOST; i++)
        pthread_join(callers[i], NULL);
    const long took = now() - began;
    atomic_store(&allocating, false);
    pthread_join(allocator, NULL);
    printf("%ld %d %ld %ld %ld\n", atomic_load(&calls), atomic_load(real_calls), took, beside,
            without);
    fwrite(last, 1, last_length, stdout);
    puts("\nready");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
}
