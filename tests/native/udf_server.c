// Calls dballoc's loadable functions as a server does, in a heap of known contents:
// udf_server LIBRARY [NAME...]. Prints a line with what malloc was asked for and not given back,
// bytes; then a line for each NAME, a function without its dballoc_; then "ready", and waits until
// standard input ends.
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../native/udf/abi.h"

enum { THREADS = 3, BLOCKS = 20000, LARGE = 4 };
static const size_t SMALL_SIZE = 1000, LARGE_SIZE = 3000000;

typedef bool init_function(struct udf *udf, struct udf_arguments *arguments, char *message);
typedef void deinit_function(struct udf *udf);
typedef char *main_function(struct udf *udf, struct udf_arguments *arguments, char *result,
        unsigned long *length, char *is_null, char *error);

static pthread_barrier_t filled, freed;

static void *fill(void *argument)
{
    void **blocks = calloc(BLOCKS, sizeof *blocks);
    if (blocks == NULL) {
        abort();
    }
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SMALL_SIZE);
        if (blocks[i] == NULL) {
            abort();
        }
        memset(blocks[i], 1, SMALL_SIZE);
    }
    // Every other one goes, so that pages stay: what is free is held. Not before all have theirs,
    // for others would take it.
    pthread_barrier_wait(&filled);
    for (int i = 0; i < BLOCKS; i += 2) {
        free(blocks[i]);
    }
    pthread_barrier_wait(&freed);
    pause();
    return argument;
}

static void *symbol(void *library, const char *name, const char *suffix)
{
    char whole[128];
    snprintf(whole, sizeof whole, "dballoc_%s%s", name, suffix);
    void *found = dlsym(library, whole);
    if (found == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return found;
}

static void call(void *library, const char *name)
{
    init_function *init;
    main_function *function;
    deinit_function *deinit;
    void *found = symbol(library, name, "_init");
    memcpy(&init, &found, sizeof found);
    found = symbol(library, name, "");
    memcpy(&function, &found, sizeof found);
    found = symbol(library, name, "_deinit");
    memcpy(&deinit, &found, sizeof found);

    struct udf udf = {.maybe_null = true, .max_length = 255};
    struct udf_arguments arguments = {.count = 1};
    char message[UDF_MESSAGE] = "", result[255], is_null = 0, error = 0;
    unsigned long length = sizeof result;
    if (!init(&udf, &arguments, message) || message[0] == '\0') {
        fputs("an argument was not refused\n", stderr);
        exit(1);
    }
    arguments.count = 0;
    if (init(&udf, &arguments, message)) {
        fprintf(stderr, "%s\n", message);
        exit(1);
    }
    const char *text = function(&udf, &arguments, result, &length, &is_null, &error);
    if (is_null || error || length > udf.max_length) {
        exit(1);
    }
    fwrite(text, 1, length, stdout);
    putchar('\n');
    deinit(&udf);
}

int main(int count, char **words)
{
    void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    pthread_barrier_init(&filled, NULL, THREADS);
    pthread_barrier_init(&freed, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, fill, NULL) != 0) {
            return 1;
        }
    }
    static char *large[LARGE];
    for (int i = 0; i < LARGE; i++) {
        large[i] = malloc(LARGE_SIZE);
        if (large[i] == NULL) {
            return 1;
        }
        memset(large[i], 1, LARGE_SIZE);
    }
    pthread_barrier_wait(&freed);
    printf("%zu\n",
            THREADS * (BLOCKS / 2 * SMALL_SIZE + BLOCKS * sizeof(void *)) + LARGE * LARGE_SIZE);
    for (int i = 2; i < count; i++) {
        call(library, words[i]);
    }
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
}
