/* A test's preload: a malloc that has C23's free_sized and free_aligned_sized, which not every C
 * library has. It is glibc's but for a head in front of each block, with the size and the alignment
 * that it was allocated with, and ends the program where a sized free says another. With FREES in
 * the environment, it prints at exit how many blocks came back by each of the three.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            static const char words[] = "sized.c: a block is not what was said\n";                 \
            (void)!write(STDERR_FILENO, words, sizeof words - 1);                                  \
            _exit(3);                                                                              \
        }                                                                                          \
    } while (0)

/* glibc's own, by the names that nobody replaces. */
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

enum { HEAD = 64 };

struct head {
    void *start;
    size_t size, alignment;
    uint64_t mark;
};
static const uint64_t MARK = 0x5eed0b10c5eed0b1;
static atomic_ulong by_free, by_free_sized, by_free_aligned_sized;

static struct head *head_of(void *block)
{
    struct head *head = (struct head *)((char *)block - HEAD);
    CHECK(head->mark == MARK);
    return head;
}

static void *allocate(size_t alignment, size_t size)
{
    const size_t step = alignment > HEAD ? alignment : HEAD;
    if (size > PTRDIFF_MAX - 2 * step) {
        errno = ENOMEM;
        return NULL;
    }
    char *start = __libc_memalign(step, size + step);
    if (start == NULL)
        return NULL;
    struct head *head = (struct head *)(start + step - HEAD);
    *head = (struct head){.start = start, .size = size, .alignment = alignment, .mark = MARK};
    return start + step;
}

static void release(void *block)
{
    struct head *head = head_of(block);
    head->mark = 0;
    __libc_free(head->start);
}

EXPORT void *malloc(size_t size)
{
    return allocate(16, size);
}

EXPORT void *calloc(size_t count, size_t size)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = allocate(16, bytes);
    return block == NULL ? NULL : memset(block, 0, bytes);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    return allocate(alignment, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    return allocate(alignment, size);
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t size)
{
    void *made = allocate(alignment, size);
    if (made == NULL)
        return ENOMEM;
    *block = made;
    return 0;
}

EXPORT void *valloc(size_t size)
{
    return allocate(4096, size);
}

EXPORT void *pvalloc(size_t size)
{
    return allocate(4096, (size + 4095) / 4096 * 4096);
}

EXPORT size_t malloc_usable_size(void *block)
{
    return block == NULL ? 0 : head_of(block)->size;
}

EXPORT void free(void *block)
{
    if (block == NULL)
        return;
    const int before = errno;
    by_free++;
    release(block);
    errno = before;
}

EXPORT void free_sized(void *block, size_t size)
{
    if (block == NULL)
        return;
    const int before = errno;
    CHECK(head_of(block)->size == size && head_of(block)->alignment == 16);
    by_free_sized++;
    release(block);
    errno = before;
}

EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size)
{
    if (block == NULL)
        return;
    const int before = errno;
    CHECK(head_of(block)->size == size && head_of(block)->alignment == alignment);
    by_free_aligned_sized++;
    release(block);
    errno = before;
}

EXPORT void *realloc(void *block, size_t size)
{
    void *moved = allocate(16, size);
    if (moved == NULL || block == NULL)
        return moved;
    const size_t before = head_of(block)->size;
    memcpy(moved, block, before < size ? before : size);
    release(block);
    return moved;
}

__attribute__((destructor)) static void report(void)
{
    if (getenv("FREES") == NULL)
        return;
    char line[128];
    const int length =
            snprintf(line, sizeof line, "free %lu free_sized %lu free_aligned_sized %lu\n", by_free,
                    by_free_sized, by_free_aligned_sized);
    (void)!write(STDERR_FILENO, line, (size_t)length);
}
