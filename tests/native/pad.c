/* A test's preload: asks the malloc behind it for a quarter more than the caller asked for.
 *
 * The effect on memory is known, so that tests can tell whether dballoc finds it. The next library
 * in the search order does the work (dlsym(RTLD_NEXT)): preload it before an allocator, or alone
 * over glibc's malloc. free, and what asks for a block's size, need no wrapper: the block is the
 * other's own.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

/* dlsym itself may call calloc before the real one is known. It gets a piece of this, which free
 * never sees: glibc keeps what it asks for there. */
static _Alignas(16) char early[4096];
static size_t early_used;

/* Fill a function pointer, once. */
static void resolve(void *pointer, const char *name)
{
    void **slot = pointer;
    if (*slot == NULL)
        *slot = dlsym(RTLD_NEXT, name);
    if (*slot == NULL)
        abort();
}

#define REAL(result, name, ...)                                                                    \
    static result (*real)(__VA_ARGS__);                                                            \
    resolve(&real, #name)

static size_t padded(size_t size)
{
    const size_t more = size + size / 4;
    return more < size ? size : more;
}

EXPORT void *malloc(size_t size)
{
    REAL(void *, malloc, size_t);
    return real(padded(size));
}

EXPORT void *calloc(size_t count, size_t size)
{
    static int looking;
    static void *(*real)(size_t, size_t);
    if (real == NULL) {
        if (looking) {
            const size_t wanted = (count * size + 15) & ~(size_t)15;
            if (wanted > sizeof early - early_used)
                abort();
            early_used += wanted;
            return early + early_used - wanted;
        }
        looking = 1;
        resolve(&real, "calloc");
    }
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return real(1, padded(bytes));
}

EXPORT void *realloc(void *block, size_t size)
{
    REAL(void *, realloc, void *, size_t);
    return real(block, padded(size));
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    REAL(void *, memalign, size_t, size_t);
    return real(alignment, padded(size));
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t size)
{
    REAL(int, posix_memalign, void **, size_t, size_t);
    return real(block, alignment, padded(size));
}

/* C17 wants a multiple of the alignment; the pad is cut to one. */
EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    REAL(void *, aligned_alloc, size_t, size_t);
    const size_t more = padded(size);
    return real(alignment, alignment == 0 ? more : more - (more - size) % alignment);
}
