/* A malloc with a fault, over glibc's: after FAULTY_AFTER calls it crashes, sleeps for ever, or
 * returns nothing, as FAULTY says. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

static const char *fault;
static long after;
static _Atomic long calls;

static __attribute__((constructor)) void begin(void)
{
    const char *number = getenv("FAULTY_AFTER");
    after = number ? atol(number) : 1000;
    fault = getenv("FAULTY");
}

void *malloc(size_t size)
{
    if (fault && atomic_fetch_add(&calls, 1) >= after) {
        if (strcmp(fault, "crash") == 0)
            __builtin_trap();
        if (strcmp(fault, "nothing") == 0)
            return NULL;
        for (;;)
            (void)sleep(1000);
    }
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    return __libc_realloc(block, size);
}

void free(void *block)
{
    __libc_free(block);
}

void *memalign(size_t alignment, size_t size)
{
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    *block = __libc_memalign(alignment, size);
    return *block ? 0 : 12;
}
