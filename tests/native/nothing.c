/* A malloc that does as little as one can: every block is the next part of a large range of
 * addresses, and nothing is given back. What a replay costs over it is the engine's own. Blocks are
 * not to be written to, but for those of calloc and of small alignment, of which there are few: the
 * range is not reserved. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#define RANGE (1ull << 42)
#define PART (1ull << 24)

static _Atomic uintptr_t next_part;
static _Thread_local uintptr_t next, end __attribute__((tls_model("initial-exec")));

static __attribute__((constructor)) void begin(void)
{
    if (atomic_load(&next_part) != 0)
        return;
    void *range = mmap(NULL, RANGE, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    atomic_store(&next_part, range == MAP_FAILED ? 0 : (uintptr_t)range);
}

static __attribute__((noinline)) void *take_part(size_t size)
{
    begin(); /* the loader may call us before our constructor */
    uintptr_t part = atomic_fetch_add(&next_part, size > PART ? size : PART);
    if (size > PART)
        return (void *)part;
    next = part + size;
    end = part + PART;
    return (void *)part;
}

void *malloc(size_t size)
{
    size = (size + 15) & ~(size_t)15;
    uintptr_t block = next;
    if (__builtin_expect(end - block < size || end == 0, 0))
        return take_part(size);
    next = block + size;
    return (void *)block;
}

void free(void *block)
{
    (void)block;
}

void *calloc(size_t count, size_t size)
{
    return malloc(count * size); /* fresh memory is zero */
}

void *realloc(void *block, size_t size)
{
    (void)block;
    return malloc(size);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    uintptr_t wide = (uintptr_t)malloc(size + alignment);
    *block = (void *)((wide + alignment - 1) & ~(alignment - 1));
    return 0;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    void *block = NULL;
    (void)posix_memalign(&block, alignment, size);
    return block;
}

void *memalign(size_t alignment, size_t size)
{
    return aligned_alloc(alignment, size);
}
