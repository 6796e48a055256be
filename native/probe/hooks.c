/* The functions that the program calls instead of the next allocator's.
 *
 * The fast path is a subtraction or a load, and a jump to the next function. The slow path, slow_…,
 * is reached by a jump too (a tail call, with optimisation), so its frame is right next to the
 * caller's, and its saved frame pointer is the caller's own. Built with -fexceptions, because
 * operator new throws through it.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "filter.h"
#include "live.h"
#include "next_allocator.h"
#include "sample.h"

#define EXPORT __attribute__((visibility("default")))
#define SLOW static __attribute__((noinline))
#define FRAME ((const uintptr_t *)__builtin_frame_address(0))

static inline size_t product(size_t count, size_t size)
{
    size_t bytes = 0;
    return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX - 1 : bytes;
}

/* Where `passes` holds, the bytes that went by are no loss: the gaps between samples have no
 * memory. */
#define ALLOCATION(name, parameters, arguments, requested, passes)                                 \
    SLOW void *slow_##name parameters                                                              \
    {                                                                                              \
        struct call call;                                                                          \
        call_begin(&call, ALLOCATING, requested);                                                  \
        if (passes)                                                                                \
            return next.name arguments;                                                            \
        void *block = next.name arguments;                                                         \
        call_end(&call, block, FRAME);                                                             \
        return block;                                                                              \
    }                                                                                              \
    EXPORT void *name parameters;                                                                  \
    EXPORT void *name parameters                                                                   \
    {                                                                                              \
        if (due(requested))                                                                        \
            return slow_##name arguments;                                                          \
        return next.name arguments;                                                                \
    }
#define FAMILY(name, parameters, arguments, requested)                                             \
    ALLOCATION(name, parameters, arguments, requested, false)
ALLOCATING_FUNCTIONS(FAMILY)
#undef FAMILY
#define OPERATOR_NEW(name, parameters, arguments, called, its_arguments)                           \
    ALLOCATION(name, parameters, arguments, size, next.passes.name)
NEW_FUNCTIONS(OPERATOR_NEW)

/* A sampled block is removed from the table before it is freed: once it is free, another thread may
 * get the same address. */
#define RELEASE(name, parameters, arguments, passes)                                               \
    SLOW void slow_##name parameters                                                               \
    {                                                                                              \
        if (next_is_early(block))                                                                  \
            return;                                                                                \
        struct call call;                                                                          \
        call_begin(&call, FREEING, 0);                                                             \
        if (passes) {                                                                              \
            next.name arguments;                                                                   \
            return;                                                                                \
        }                                                                                          \
        call_free(&call, block);                                                                   \
        next.name arguments;                                                                       \
        call_end(&call, NULL, FRAME);                                                              \
    }                                                                                              \
    EXPORT void name parameters;                                                                   \
    EXPORT void name parameters                                                                    \
    {                                                                                              \
        if (filter_hit(block) || free_due()) {                                                     \
            slow_##name arguments;                                                                 \
            return;                                                                                \
        }                                                                                          \
        next.name arguments;                                                                       \
    }
#define FAMILY(name, parameters, arguments) RELEASE(name, parameters, arguments, false)
FREEING_FUNCTIONS(FAMILY)
#undef FAMILY
#define OPERATOR_DELETE(name, parameters, arguments, called, its_arguments)                        \
    RELEASE(name, parameters, arguments, next.passes.name)
DELETE_FUNCTIONS(OPERATOR_DELETE)

SLOW int slow_posix_memalign(void **block, size_t alignment, size_t size)
{
    struct call call;
    call_begin(&call, ALLOCATING, size);
    const int error = next.posix_memalign(block, alignment, size);
    call_end(&call, error == 0 ? *block : NULL, FRAME);
    return error;
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t size);
EXPORT int posix_memalign(void **block, size_t alignment, size_t size)
{
    if (due(size))
        return slow_posix_memalign(block, alignment, size);
    return next.posix_memalign(block, alignment, size);
}

/* An early block moves to the next allocator's memory; it is left behind. */
static void *grow_early(const void *block, size_t size)
{
    void *copy = next.malloc(size);
    if (copy != NULL) {
        const size_t before = next_early_size(block);
        memcpy(copy, block, before < size ? before : size);
    }
    return copy;
}

/* The old block is freed and a new one allocated, as far as samples go; if it fails, the old one
 * lives on. */
SLOW void *slow_realloc(void *block, size_t size)
{
    struct call call;
    struct live_block old;
    if (next_is_early(block))
        return grow_early(block, size);
    call_begin(&call, ALLOCATING, size);
    const bool was_sampled = remove_sampled(block, &old);
    void *moved = next.realloc(block, size);
    if (moved == NULL && size != 0 && was_sampled)
        live_insert(&old);
    call_end(&call, moved, FRAME);
    return moved;
}

EXPORT void *realloc(void *block, size_t size);
EXPORT void *realloc(void *block, size_t size)
{
    if (filter_hit(block) || due(size))
        return slow_realloc(block, size);
    return next.realloc(block, size);
}

/* Not forwarded: glibc's calls realloc, which would lead here a second time. */
EXPORT void *reallocarray(void *block, size_t count, size_t size);
EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    if (next.realloc_before != NULL)
        return next.realloc_before(block, bytes);
    if (filter_hit(block) || due(bytes))
        return slow_realloc(block, bytes);
    return next.realloc(block, bytes);
}
