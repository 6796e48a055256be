/* A program for the heap probe to look at: probed MODE. Modes that leave something alive print it
 * and wait on standard input.
 *
 * known: forty call sites; of each what is alive, by malloc_usable_size: lines
 * "site NAME BYTES BLOCKS", then "ready".
 *
 * leak: allocates and frees without end; one call in a hundred, in leaking(), is never freed;
 * "ready" at once.
 *
 * family: every function of the family, with what its manual promises.
 *
 * counters: blocks all over 512 MiB of addresses.
 *
 * storm: 256 threads that come and go, destructors of thread-specific data, fork, dlopen, a timer's
 * signals, all at once.
 *
 * threads: the same without fork, for a malloc that hangs in the children of a process with threads
 * (tbbmalloc does).
 *
 * fork: children that free and allocate, and one that goes on as its parent.
 *
 * sized: two call sites whose blocks go by C23's free_sized and free_aligned_sized, but for the
 * last 1,000 of each; lines "site …" and "ready" as of known.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* C++'s operators, by the names that they have. */
void *_Znwm(size_t size);
void *_Znam(size_t size);
void _ZdlPv(void *block);
void _ZdaPvm(void *block, size_t size);
void *_ZnwmSt11align_val_t(size_t size, size_t alignment);
void _ZdlPvmSt11align_val_t(void *block, size_t size, size_t alignment);

enum { SITES = 40, BLOCKS = 20000, THREADS = 4 };

static void *kept[SITES * BLOCKS];
static _Atomic size_t live_bytes[SITES], live_blocks[SITES];
static void *from_constructor;

__attribute__((constructor)) static void early(void)
{
    from_constructor = malloc(1000);
}

// The addition keeps the compiler from a tail call, which would leave the site out of the stack.
#define SITE(n)                                                                                    \
    __attribute__((noinline)) static void *site_##n(size_t size)                                   \
    {                                                                                              \
        char *block = (n) % 4 == 0   ? malloc(size)                                                \
                      : (n) % 4 == 1 ? calloc(1, size)                                             \
                      : (n) % 4 == 2 ? _Znwm(size)                                                 \
                                     : realloc(malloc(8), size);                                   \
        __asm__ volatile("" : "+r"(block));                                                        \
        return block;                                                                              \
    }
#define TEN(X, d)                                                                                  \
    X(d##0)                                                                                        \
    X(d##1) X(d##2) X(d##3) X(d##4) X(d##5) X(d##6) X(d##7) X(d##8) X(d##9)
TEN(SITE, )
TEN(SITE, 1)
TEN(SITE, 2)
TEN(SITE, 3)
#define NAME(n) site_##n,
static void *(*const sites[SITES])(size_t) = {TEN(NAME, ) TEN(NAME, 1) TEN(NAME, 2) TEN(NAME, 3)};

static void *fill(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;
    for (int i = 0; i < BLOCKS * 2; i++) {
        const int site = rand_r(&seed) % SITES;
        const size_t size = (size_t)(rand_r(&seed) % (40 + 20 * site)) + 100;
        void *block = sites[site](size);
        CHECK(block != NULL);
        if (rand_r(&seed) % 2) {
            free(block);
            continue;
        }
        live_bytes[site] += malloc_usable_size(block);
        kept[site * BLOCKS + live_blocks[site]++] = block;
    }
    return NULL;
}

static void wait_for_end(void)
{
    printf("ready\n");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
}

static void run(void *(*work)(void *), uintptr_t threads)
{
    pthread_t *started = calloc(threads, sizeof *started);
    for (uintptr_t i = 0; i < threads; i++)
        CHECK(pthread_create(&started[i], NULL, work, (void *)(i + 1)) == 0);
    for (uintptr_t i = 0; i < threads; i++)
        CHECK(pthread_join(started[i], NULL) == 0);
    free(started);
}

static void known(void)
{
    run(fill, THREADS);
    for (int i = 0; i < SITES; i++)
        printf("site site_%d %zu %zu\n", i, (size_t)live_bytes[i], (size_t)live_blocks[i]);
    wait_for_end();
}

__attribute__((noinline)) static void *leaking(size_t size)
{
    void *block = malloc(size);
    __asm__ volatile("" : "+r"(block));
    return block;
}

__attribute__((noinline)) static void *passing(size_t size)
{
    void *block = malloc(size);
    __asm__ volatile("" : "+r"(block));
    return block;
}

__attribute__((noreturn)) static void *leak(void *argument)
{
    enum { HELD = 4096 };
    static _Thread_local void *held[HELD];
    unsigned seed = (unsigned)(uintptr_t)argument;
    for (long i = 0;; i++) {
        if (i % 100 == 0)
            (void)leaking(1000);
        void **place = &held[rand_r(&seed) % HELD];
        free(*place);
        *place = passing((size_t)(rand_r(&seed) % 2000) + 1);
        if (i % 1000 == 0)
            usleep(1000);
    }
}

/* C23's functions by dlsym: a C library before glibc 2.43 has none. Without them, free. */
static void (*sized)(void *block, size_t size);
static void (*aligned_sized)(void *block, size_t alignment, size_t size);

static void find_sized_frees(void)
{
    void *plain = dlsym(RTLD_DEFAULT, "free_sized");
    void *aligned = dlsym(RTLD_DEFAULT, "free_aligned_sized");
    memcpy(&sized, &plain, sizeof sized);
    memcpy(&aligned_sized, &aligned, sizeof aligned_sized);
}

static void free_plain(void *block, size_t size)
{
    if (sized != NULL)
        sized(block, size);
    else
        free(block);
}

static void free_aligned(void *block, size_t alignment, size_t size)
{
    if (aligned_sized != NULL)
        aligned_sized(block, alignment, size);
    else
        free(block);
}

__attribute__((noinline)) static void *sized_plain(size_t size)
{
    void *block = malloc(size);
    __asm__ volatile("" : "+r"(block));
    return block;
}

__attribute__((noinline)) static void *sized_aligned(size_t size)
{
    void *block = aligned_alloc(64, size);
    __asm__ volatile("" : "+r"(block));
    return block;
}

static void *free_by_size(void *argument)
{
    enum { ALL = 20000, LIVE = 1000, SIZE = 1024 };
    size_t plain_bytes = 0, aligned_bytes = 0;
    for (int i = 0; i < ALL; i++) {
        void *plain = sized_plain(SIZE), *aligned = sized_aligned(SIZE);
        CHECK(plain != NULL && aligned != NULL && (uintptr_t)aligned % 64 == 0);
        if (i < ALL - LIVE) {
            errno = 12345;
            free_plain(plain, SIZE);
            free_aligned(aligned, 64, SIZE);
            CHECK(errno == 12345);
            continue;
        }
        plain_bytes += malloc_usable_size(plain);
        aligned_bytes += malloc_usable_size(aligned);
        kept[2 * (i - ALL + LIVE)] = plain;
        kept[2 * (i - ALL + LIVE) + 1] = aligned;
    }
    printf("site sized_plain %zu %d\nsite sized_aligned %zu %d\n", plain_bytes, LIVE, aligned_bytes,
            LIVE);
    return argument;
}

static void sized_frees(void)
{
    find_sized_frees();
    CHECK(sized != NULL && aligned_sized != NULL);
    run(free_by_size, 1);
    wait_for_end();
}

static void family(void)
{
    CHECK(from_constructor != NULL);
    find_sized_frees();
    for (int round = 0; round < 3000; round++) {
        const size_t size = (size_t)round * 7 + 1;
        unsigned char *block = calloc(size, 1);
        for (size_t i = 0; i < size; i++)
            CHECK(block[i] == 0);
        memset(block, 7, size);
        block = realloc(block, size * 2);
        CHECK(block[0] == 7 && block[size - 1] == 7);
        block = reallocarray(block, size, 3);
        CHECK(block[size - 1] == 7);
        free(block);
        CHECK(posix_memalign((void **)&block, 256, size) == 0 && (uintptr_t)block % 256 == 0);
        free(block);
        block = aligned_alloc(64, (size + 63) / 64 * 64);
        CHECK((uintptr_t)block % 64 == 0);
        free(block);
        block = memalign(4096, size);
        CHECK((uintptr_t)block % 4096 == 0);
        free(block);
        block = valloc(size);
        CHECK((uintptr_t)block % 4096 == 0);
        errno = 12345;
        free(block);
        CHECK(errno == 12345);
        _ZdlPv(_Znwm(size));
        _ZdaPvm(_Znam(size), size);
        block = _ZnwmSt11align_val_t(size, 128);
        CHECK((uintptr_t)block % 128 == 0);
        _ZdlPvmSt11align_val_t(block, size, 128);
        block = malloc(size);
        free_plain(block, size);
        block = aligned_alloc(64, (size + 63) / 64 * 64);
        free_aligned(block, 64, (size + 63) / 64 * 64);
        free(malloc(0));
        free(NULL);
    }
    /* What fails, fails as it did; the old block lives on. */
    const volatile size_t huge = SIZE_MAX / 2;
    errno = 0;
    CHECK(malloc(huge) == NULL && errno == ENOMEM);
    CHECK(calloc(huge, 4) == NULL && reallocarray(NULL, huge, 4) == NULL);
    char *old = malloc(1 << 20);
    memset(old, 3, 1 << 20);
    CHECK(realloc(old, huge) == NULL && old[(1 << 20) - 1] == 3);
    free(old);
    free(realloc(from_constructor, 2000));
}

/* A block that grows, and one that is freed, in every 256 bytes of 512 MiB: some fall on each of
 * the probe's 2^20 counters. Their pages are given back on the way. */
static void every_counter(void)
{
    enum { SIZE = 240, GROWN = 248, BATCH = 4096, ROUNDS = 1 << 21 };
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    uintptr_t from = ((uintptr_t)malloc(SIZE) / page + 1) * page;
    for (int i = 1; i <= ROUNDS; i++) {
        char *block = malloc(SIZE);
        CHECK(block != NULL);
        free(block);
        block = malloc(SIZE);
        const uintptr_t to = (uintptr_t)realloc(block, GROWN) / page * page;
        if (i % BATCH == 0 && to > from) {
            CHECK(madvise((void *)from, to - from, MADV_DONTNEED) == 0);
            from = to;
        }
    }
}

static pthread_key_t key;
static volatile sig_atomic_t alarms;
static bool may_fork;

static void destroy(void *block)
{
    free(block);
    void *again = malloc(300);
    static _Thread_local int rounds;
    if (++rounds < 3)
        CHECK(pthread_setspecific(key, again) == 0);
    else
        free(again);
}

static void on_alarm(int number)
{
    (void)number;
    alarms++;
}

static void *come_and_go(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;
    void *mine[64] = {NULL};
    CHECK(pthread_setspecific(key, malloc(100)) == 0);
    for (int i = 0; i < 400; i++) {
        void **place = &mine[rand_r(&seed) % 64];
        *place = realloc(*place, (size_t)(rand_r(&seed) % 3000) + 1);
        *(char *)*place = 1;
    }
    for (int i = 0; i < 64; i++)
        free(mine[i]);
    return NULL;
}

static void *loader(void *argument)
{
    (void)argument;
    for (int i = 0; i < 100; i++) {
        void *library = dlopen("libBrokenLocale.so.1", RTLD_NOW);
        (void)dlsym(RTLD_DEFAULT, "there_is_no_such_symbol");
        if (library != NULL)
            dlclose(library);
    }
    return NULL;
}

static int reaped(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        CHECK(errno == EINTR);
    return status;
}

static void *forker(void *argument)
{
    for (int i = 0; i < 5; i++) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            come_and_go(argument);
            _exit(0);
        }
        CHECK(reaped(child) == 0);
    }
    return NULL;
}

static void *mixed(void *argument)
{
    const uintptr_t number = (uintptr_t)argument;
    return number % 100 == 0              ? loader(argument)
           : may_fork && number % 50 == 1 ? forker(argument)
                                          : come_and_go(argument);
}

static void storm(void)
{
    CHECK(pthread_key_create(&key, destroy) == 0);
    CHECK(signal(SIGPROF, on_alarm) != SIG_ERR);
    const struct itimerval often = {.it_interval.tv_usec = 500, .it_value.tv_usec = 500};
    CHECK(setitimer(ITIMER_PROF, &often, NULL) == 0);
    run(mixed, 256);
    const struct itimerval off = {.it_interval.tv_usec = 0};
    CHECK(setitimer(ITIMER_PROF, &off, NULL) == 0);
    CHECK(alarms > 0);
}

static void *allocate(void *argument)
{
    return memset(malloc(1 << 20), 1, (size_t)(uintptr_t)argument);
}

// As a server does that detaches; then with threads, where a child is nothing to the probe.
static void forks(void)
{
    void *before[64];
    for (int i = 0; i < 64; i++)
        before[i] = sites[i % SITES](50000);
    const pid_t detached = fork();
    CHECK(detached >= 0);
    if (detached != 0) {
        _exit(reaped(detached) == 0 ? 0 : 1);
    }
    run(allocate, 1);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int i = 0; i < 64; i++)
            free(before[i]);
        for (int i = 0; i < 1000; i++)
            free(sites[i % SITES](5000));
        _exit(0);
    }
    CHECK(reaped(child) == 0);
    printf("pid %d\n", (int)getpid());
    wait_for_end();
}

int main(int count, char **words)
{
    const char *mode = count == 2 ? words[1] : "";
    if (strcmp(mode, "known") == 0) {
        known();
    } else if (strcmp(mode, "leak") == 0) {
        pthread_t thread;
        for (uintptr_t i = 0; i < 2; i++)
            CHECK(pthread_create(&thread, NULL, leak, (void *)(i + 1)) == 0);
        wait_for_end();
    } else if (strcmp(mode, "sized") == 0) {
        sized_frees();
    } else if (strcmp(mode, "family") == 0) {
        family();
    } else if (strcmp(mode, "counters") == 0) {
        every_counter();
    } else if (strcmp(mode, "storm") == 0 || strcmp(mode, "threads") == 0) {
        may_fork = strcmp(mode, "storm") == 0;
        storm();
    } else if (strcmp(mode, "fork") == 0) {
        forks();
    } else {
        return 2;
    }
    return 0;
}
