// A program whose allocations are known: what it has at its end it prints as lines "block ADDRESS
// SIZE", and what a mode says of itself before. It prints without allocating.
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 512, ROUNDS = 20000, THREADS = 8 };

struct known {
    void *block;
    size_t size;
};

static struct known slots[SLOTS];
static pthread_mutex_t locks[SLOTS];

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void say(const char *format, uintptr_t a, size_t b)
{
    char line[128];
    const int length = snprintf(line, sizeof line, format, a, b);
    if (write(STDOUT_FILENO, line, (size_t)length) != length) {
        _exit(1);
    }
}

static void print_blocks(void)
{
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i].block != NULL) {
            say("block %#lx %zu\n", (uintptr_t)slots[i].block, slots[i].size);
        }
    }
}

static uint64_t draw(uint64_t *random)
{
    *random ^= *random << 13; // xorshift64 (Marsaglia 2003)
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

// One change of a slot, by any function of the family.
static void change(struct known *slot, uint64_t *random)
{
    const size_t size = draw(random) % 2000 + 1;
    const uint64_t how = draw(random) % 10;
    if (slot->block != NULL && how < 4) {
        free(slot->block);
        slot->block = NULL;
        return;
    }
    if (slot->block != NULL && how < 7) {
        void *moved = how == 4 ? reallocarray(slot->block, size, 2) : realloc(slot->block, size);
        slot->size = how == 4 ? 2 * size : size;
        slot->block = moved;
    } else {
        free(slot->block);
        slot->size = size;
        if (how == 7) {
            slot->block = calloc(size, 1);
        } else if (how == 8) {
            slot->block = aligned_alloc(64, size);
        } else if (how == 9 && posix_memalign(&slot->block, 256, size) != 0) {
            fail("posix_memalign");
        } else if (how != 9) {
            slot->block = malloc(size);
        }
    }
    if (slot->block == NULL) {
        fail("malloc");
    }
    memset(slot->block, 1, slot->size);
}

static void *work(void *seed)
{
    uint64_t random = (uint64_t)(uintptr_t)seed * 0x9E3779B97F4A7C15U + 1;
    for (int i = 0; i < ROUNDS; i++) {
        const int at = (int)(draw(&random) % SLOTS);
        pthread_mutex_lock(&locks[at]);
        change(&slots[at], &random);
        pthread_mutex_unlock(&locks[at]);
    }
    return NULL;
}

static void in_threads(int count, void *(*run)(void *))
{
    pthread_t threads[256];
    for (intptr_t i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, run, (void *)(i + 1)) != 0) {
            fail("pthread_create");
        }
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
}

// Edges of the family.
static void do_edges(void)
{
    free(NULL);
    volatile size_t enormous = PTRDIFF_MAX;
    if (malloc(enormous) != NULL || calloc(enormous, 4) != NULL || errno != ENOMEM) {
        _exit(2);
    }
    slots[0] = (struct known){realloc(NULL, 77), 77};
    void *gone = malloc(33);
    gone = realloc(gone, 0); // glibc frees it
    if (gone != NULL) {
        _exit(3);
    }
    slots[1] = (struct known){malloc(0), 0};
    slots[2] = (struct known){valloc(5000), 5000};
    slots[3] = (struct known){memalign(1 << 16, 100), 100};
    if (realloc(slots[0].block, enormous) != NULL) { // it lives on
        _exit(4);
    }
}

// Large blocks with alignments that are no powers of two, and one that is. Each size is another class,
// so that each call is the first of its site and class: of those the recorder gives blocks of its own.
static void do_alignments(void)
{
    static const volatile size_t alignments[] = {0, 3, 24, 4095, 64};
    size_t size = 10000;
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++, size *= 2) {
        void *blocks[] = {aligned_alloc(alignments[i], size), memalign(alignments[i], size), NULL};
        if (posix_memalign(&blocks[2], alignments[i], size) != 0) {
            blocks[2] = NULL;
        }
        for (size_t j = 0; j < sizeof blocks / sizeof *blocks; j++) {
            say("usable %lu %zu\n", alignments[i], malloc_usable_size(blocks[j]) - size);
            free(blocks[j]);
        }
    }
}

static pthread_key_t key;
static _Thread_local int destructions;

// Frees in the last round of thread-specific destructors, when other libraries' have run.
static void destroy(void *block)
{
    if (++destructions < 4) {
        pthread_setspecific(key, block);
    } else {
        free(block);
    }
}

static void *leave_late(void *number)
{
    (void)number;
    pthread_setspecific(key, malloc(1000));
    return NULL;
}

static volatile sig_atomic_t handled;

static void handle(int number)
{
    (void)number;
    free(malloc(50));
    handled++;
}

// Large blocks, of which every third page is touched.
static void do_large(void)
{
    for (int i = 0; i < 400; i++) {
        const size_t size = 40 * 4096;
        char *block = malloc(size);
        for (size_t page = 0; page < 40; page += 3) {
            block[page * 4096 + 16] = 1;
        }
        if (malloc_usable_size(block) < size) {
            _exit(5);
        }
        if (i % 4 == 1) {
            char *moved = realloc(block, 2 * size);
            if (moved == NULL || moved[16] != 1 || moved[39 * 4096 + 16] != 1) {
                _exit(6);
            }
            block = moved;
        } else if (i % 4 == 2) {
            block = realloc(block, 100);
            if (block[16] != 1) {
                _exit(7);
            }
        }
        if (i % 4 == 3 && slots[i].block == NULL) {
            slots[i] = (struct known){block, size};
        } else {
            free(block);
        }
    }
}

enum { WRAPPED = 20 * 4096 };

// One wrapper of malloc for two callers: from here, all calls look alike.
static __attribute__((noinline)) char *wrap(void)
{
    char *volatile block = malloc(WRAPPED);
    return block;
}

static __attribute__((noinline)) void use_first_page(void)
{
    char *block = wrap();
    block[0] = 1;
    free(block);
}

static __attribute__((noinline)) void use_all_pages(void)
{
    volatile char deeper[200] = {0}; // as another function mostly is
    char *block = wrap();
    memset(block, deeper[100] + 1, WRAPPED);
    free(block);
}

static void churn(long events)
{
    static void *live[64];
    uint64_t random = 1;
    for (long i = 0; events < 0 || i < events; i += 2) {
        void **slot = &live[draw(&random) % 64];
        free(*slot);
        *slot = malloc(draw(&random) % 500 + 1);
    }
}

static void wait_for_end(void)
{
    char byte;
    if (write(STDOUT_FILENO, "ready\n", 6) != 6) {
        _exit(1);
    }
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
}

// C23's, which the recorder has over any malloc.
extern void free_sized(void *block, size_t size) __attribute__((weak));

// Frees blocks with sizes that no block has: a mistake, of which glibc's malloc takes no notice.
static void do_wrong_sizes(void)
{
    for (int i = 0; i < 100; i++) {
        free_sized(malloc(100), SIZE_MAX - (size_t)i);
        free_sized(malloc(50000), (size_t)1 << 56); // some of these are the recorder's own
    }
}

// Its thread is to be cancelled when the program ends.
static void do_cancelled(long milliseconds)
{
    usleep((unsigned)milliseconds * 1000);
    free(malloc(50));
    if (pthread_cancel(pthread_self()) != 0) {
        fail("pthread_cancel");
    }
}

static void do_fork(bool late)
{
    if (late) {
        const struct timespec moment = {.tv_nsec = 600000000};
        nanosleep(&moment, NULL);
    }
    slots[0] = (struct known){malloc(111), 111};
    const pid_t child = fork();
    if (child == 0) {
        slots[1] = (struct known){malloc(222), 222};
        say("child %lu %zu\n", (uintptr_t)getpid(), 0);
        print_blocks();
        exit(0);
    }
    if (child < 0 || waitpid(child, NULL, 0) != child) {
        fail("fork");
    }
    slots[2] = (struct known){malloc(333), 333};
    say("parent %lu %zu\n", (uintptr_t)getpid(), 0);
}

static void *churn_some(void *number)
{
    (void)number;
    uint64_t random = (uint64_t)(uintptr_t)number;
    for (int i = 0; i < 200; i++) {
        free(malloc(draw(&random) % 500 + 1));
    }
    return NULL;
}

// Threads that idle for a while before and after a call, and then end, each in another way. One
// lives on.
static void *idle(void *way)
{
    const struct timespec moment = {.tv_nsec = 300000000};
    nanosleep(&moment, NULL);
    free(malloc(7000 + (uintptr_t)way));
    nanosleep(&moment, NULL);
    if ((uintptr_t)way == 2) {
        pthread_exit(NULL);
    } else if ((uintptr_t)way == 3) {
        pthread_cancel(pthread_self());
        pthread_testcancel();
    }
    while ((uintptr_t)way == 4) {
        pause();
    }
    return NULL;
}

static void leave_idling(void)
{
    pthread_t threads[4];
    for (intptr_t i = 0; i < 4; i++) {
        if (pthread_create(&threads[i], NULL, idle, (void *)(i + 1)) != 0) {
            fail("pthread_create");
        }
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void run(const char *mode, long count)
{
    if (strcmp(mode, "alone") == 0) {
        work((void *)(uintptr_t)1);
    } else if (strcmp(mode, "edges") == 0) {
        do_edges();
    } else if (strcmp(mode, "alignments") == 0) {
        do_alignments();
    } else if (strcmp(mode, "threads") == 0) {
        in_threads(THREADS, work);
    } else if (strcmp(mode, "many") == 0) {
        for (int i = 0; i < 4; i++) {
            in_threads(256, churn_some);
        }
    } else if (strcmp(mode, "idling") == 0) {
        leave_idling();
        usleep((unsigned)count * 1000);
    } else if (strcmp(mode, "late") == 0) {
        pthread_key_create(&key, destroy);
        in_threads(THREADS, leave_late);
    } else if (strcmp(mode, "large") == 0) {
        do_large();
    } else if (strcmp(mode, "wrapped") == 0) {
        for (int i = 0; i < 200; i++) {
            use_first_page();
            use_all_pages();
        }
    } else if (strcmp(mode, "signals") == 0) {
        signal(SIGUSR1, handle);
        for (int i = 0; i < 100; i++) {
            raise(SIGUSR1);
        }
    } else if (strcmp(mode, "fork") == 0) {
        do_fork(false);
    } else if (strcmp(mode, "fork-late") == 0) {
        do_fork(true);
    } else if (strcmp(mode, "wrong-sizes") == 0) {
        do_wrong_sizes();
    } else if (strcmp(mode, "cancelled") == 0) {
        do_cancelled(count);
    } else if (strcmp(mode, "churn") == 0) {
        churn(count);
    } else if (strcmp(mode, "wait") == 0) {
        churn(count);
        wait_for_end();
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    for (int i = 0; i < SLOTS; i++) {
        pthread_mutex_init(&locks[i], NULL);
    }
    run(mode, argc > 2 ? strtol(argv[2], NULL, 10) : 0);
    print_blocks();
    if (argc > 3 && strcmp(argv[3], "quick_exit") == 0) {
        quick_exit(0);
    }
    if (argc > 3) {
        _exit(0);
    }
    return 0;
}
