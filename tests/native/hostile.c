// A process that makes itself expensive to look at: hostile KIND [COUNT]. Prints "ready" when it
// stands, and waits until standard input ends. Each kind is one thing that a process can have
// without end; COUNT says how many of it.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    NEXT = 2160 / 8,
    TOP = 96 / 8,
    SYSTEM = 2184 / 8,
    STATE = 2200,
    HEAP_INFO = 48
};
static const size_t TIB = (size_t)1 << 40, MIB = 1 << 20, HEAP = (size_t)64 << 20,
                    SEGMENT = (size_t)32 << 20;

static void give_up(const char *what)
{
    perror(what);
    exit(1);
}

static char *reserve(size_t size, int protection)
{
    void *start = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        give_up("mmap");
    (void)madvise(start, size, MADV_NOHUGEPAGE);
    return start;
}

// At a multiple of a power of two.
static char *aligned(size_t size, size_t to)
{
    const uintptr_t start = (uintptr_t)reserve(size + to, PROT_READ | PROT_WRITE);
    return (char *)((start + to - 1) / to * to);
}

// A TiB that nobody may touch, and one with a page in every 2 MiB.
static void sparse(size_t count)
{
    (void)reserve(TIB, PROT_NONE);
    char *start = reserve(TIB, PROT_READ | PROT_WRITE);
    for (size_t i = 0; i < count; i++)
        start[i * 2 * MIB] = 1;
}

static void alternate(size_t count)
{
    char *start = reserve(2 * count * PAGE, PROT_READ | PROT_WRITE);
    for (size_t i = 0; i < count; i++)
        start[2 * i * PAGE] = 1;
}

static void mappings(size_t count)
{
    char *start = reserve(count * PAGE, PROT_READ | PROT_WRITE);
    for (size_t i = 0; i < count; i++) {
        start[i * PAGE] = 1;
        if (i % 2 == 1 && mprotect(start + i * PAGE, PAGE, PROT_READ) != 0)
            break; // as many as the kernel grants
    }
}

static void *wait_for_ever(void *argument)
{
    for (;;)
        pause();
    return argument;
}

static void threads(size_t count)
{
    enum { STACK = 16384 };
    char *stacks = reserve(count * STACK, PROT_READ | PROT_WRITE);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    for (size_t i = 0; i < count; i++) {
        pthread_t thread;
        pthread_attr_setstack(&attributes, stacks + i * STACK, STACK);
        if (pthread_create(&thread, &attributes, wait_for_ever, NULL) != 0)
            break; // as many as the limits grant
    }
}

// Where the main arena is: in the writable data of libc, the words of which the one at NEXT leads
// back to the first.
static uintptr_t *main_arena(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    const uintptr_t top_near = (uintptr_t)sbrk(0);
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        uintptr_t start, end;
        if (strstr(line, "libc.so") == NULL || sscanf(line, "%lx-%lx rw", &start, &end) != 2 ||
                strstr(line, " rw-p") == NULL)
            continue;
        for (uintptr_t *words = (uintptr_t *)start; (uintptr_t)words + STATE <= end; words++)
            if (words[NEXT] == (uintptr_t)words && words[TOP] < top_near &&
                    words[TOP] > top_near - 64 * MIB)
                return fclose(maps), words;
    }
    give_up("no main arena");
    return NULL;
}

// Arenas of glibc's, each a heap of 64 MiB that is full of chunks of `size` bytes; their ring
// closes.
static void arenas(size_t count, size_t size, void (*more)(uintptr_t *state, char *first))
{
    uintptr_t *main_state = main_arena(), before = 0;
    char *heaps = aligned(count * HEAP, HEAP);
    for (size_t i = 0; i < count; i++) {
        char *heap = heaps + i * HEAP;
        uintptr_t *info = (uintptr_t *)heap, *state = (uintptr_t *)(heap + HEAP_INFO);
        info[0] = (uintptr_t)state;
        info[2] = info[3] = HEAP;
        char *first = heap + (HEAP_INFO + STATE + 15) / 16 * 16, *top = heap + HEAP - PAGE;
        top -= (size_t)(top - first) % size;
        state[TOP] = (uintptr_t)top;
        state[SYSTEM] = HEAP;
        state[NEXT] = before != 0 ? before : (uintptr_t)main_state;
        before = (uintptr_t)state;
        for (char *at = first; at < top; at += size) {
            ((uintptr_t *)at)[1] = size | 5;
            if (more != NULL)
                more(state, at);
        }
        ((uintptr_t *)top)[1] = (size_t)(heap + HEAP - top) | 5;
    }
    main_state[NEXT] = before;
}

static void as_a_cache(uintptr_t *state, char *chunk)
{
    uint16_t *counts = (uint16_t *)(chunk + 16);
    uintptr_t *entries = (uintptr_t *)(chunk + 16 + 128);
    (void)state;
    counts[0] = 1;
    entries[0] = (uintptr_t)chunk;
}

// All chunks are in one list of fast bins, the last one of which leads to the first.
static void in_a_bin(uintptr_t *state, char *chunk)
{
    uintptr_t *link = (uintptr_t *)(chunk + 16);
    *link = state[2] != 0 ? state[2] : (uintptr_t)chunk;
    *link ^= ((uintptr_t)link) >> 12;
    state[2] = (uintptr_t)chunk;
}

static void chunks(size_t count)
{
    arenas(count, 32, NULL);
}

static void caches(size_t count)
{
    arenas(count, 0x290, as_a_cache);
}

static void bins(size_t count)
{
    arenas(count, 32, in_a_bin);
}

// What malloc has mapped by itself, one block in every MiB, with a gap behind it that is somebody
// else's.
static void blocks(size_t count)
{
    char *start = reserve(count * 2 * MIB, PROT_READ | PROT_WRITE);
    for (size_t i = 0; i < count; i++)
        ((uintptr_t *)(start + i * 2 * MIB))[1] = MIB / 2 | 2;
}

// mimalloc's segments (2.0), each of 511 pages of a slice; for a malloc that is called libmimalloc.
static void segments(size_t count)
{
    char *start = aligned(count * SEGMENT, SEGMENT);
    for (size_t i = 0; i < count; i++) {
        uintptr_t *words = (uintptr_t *)(start + i * SEGMENT) + 28;
        words[0] = 512, words[1] = 1, words[2] = 0, words[3] = 512, words[4] = 1;
        for (size_t slice = 0; slice < 512; slice++) {
            char *page = (char *)(words + 5) + slice * 80;
            *(uint32_t *)page = 1;
            if (slice == 0)
                continue;
            *(uint16_t *)(page + 10) = *(uint16_t *)(page + 12) = 1024;
            *(uint32_t *)(page + 24) = 512;
            *(uint32_t *)(page + 28) = 64;
        }
    }
}

int main(int count, char **words)
{
    // Whose malloc it is can be seen from its own calls alone.
    void *volatile block = malloc(1);
    free(block);
    static const struct {
        const char *name;
        void (*make)(size_t count);
    } kinds[] = {
            {"sparse", sparse},
            {"alternate", alternate},
            {"mappings", mappings},
            {"threads", threads},
            {"chunks", chunks},
            {"caches", caches},
            {"bins", bins},
            {"blocks", blocks},
            {"segments", segments},
    };
    for (size_t i = 0; count == 3 && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, words[1]) != 0)
            continue;
        kinds[i].make(strtoul(words[2], NULL, 10));
        puts("ready");
        fflush(stdout);
        char byte;
        while (read(STDIN_FILENO, &byte, 1) > 0) {
        }
        _exit(0);
    }
    fputs("hostile KIND COUNT\n", stderr);
    return 2;
}
