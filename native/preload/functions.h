/* The one list of interposed functions. Each line: the C name, the return type, the parameters, the
 * arguments.
 *
 * NEXT_FUNCTIONS: the family of malloc, forwarded to the next library that has it.
 * NEW_FUNCTIONS, DELETE_FUNCTIONS: C++'s operators by their mangled names (64 bits: size_t is
 * unsigned long, "m"). A library such as jemalloc defines the operators itself, and they do not
 * pass through malloc.
 */
#ifndef DBALLOC_PRELOAD_FUNCTIONS_H
#define DBALLOC_PRELOAD_FUNCTIONS_H

#define ALLOCATING_FUNCTIONS(X)                                                                    \
    X(malloc, (size_t size), (size), size)                                                         \
    X(calloc, (size_t count, size_t size), (count, size), product(count, size))                    \
    X(memalign, (size_t alignment, size_t size), (alignment, size), size)                          \
    X(aligned_alloc, (size_t alignment, size_t size), (alignment, size), size)                     \
    X(valloc, (size_t size), (size), size)                                                         \
    X(pvalloc, (size_t size), (size), size)

#define FREEING_FUNCTIONS(X)                                                                       \
    X(free, (void *block), (block))                                                                \
    X(free_sized, (void *block, size_t size), (block, size))                                       \
    X(free_aligned_sized, (void *block, size_t alignment, size_t size), (block, alignment, size))

/* C++'s operators. tag: std::nothrow_t by reference; alignment: std::align_val_t. The last columns
 * say what the operator does by the standard ([new.delete]) if it is not replaced: it calls that
 * other function with these arguments. An operator is listed below the one that it calls. */
#define NEW_FUNCTIONS(X)                                                                           \
    X(_Znwm, (size_t size), (size), malloc, (size))                                                \
    X(_Znam, (size_t size), (size), _Znwm, (size))                                                 \
    X(_ZnwmRKSt9nothrow_t, (size_t size, const void *tag), (size, tag), _Znwm, (size))             \
    X(_ZnamRKSt9nothrow_t, (size_t size, const void *tag), (size, tag), _Znam, (size))             \
    X(_ZnwmSt11align_val_t, (size_t size, size_t alignment), (size, alignment), aligned_alloc,     \
            (alignment, size))                                                                     \
    X(_ZnamSt11align_val_t, (size_t size, size_t alignment), (size, alignment),                    \
            _ZnwmSt11align_val_t, (size, alignment))                                               \
    X(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, const void *tag),        \
            (size, alignment, tag), _ZnwmSt11align_val_t, (size, alignment))                       \
    X(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, const void *tag),        \
            (size, alignment, tag), _ZnamSt11align_val_t, (size, alignment))

#define DELETE_FUNCTIONS(X)                                                                        \
    X(_ZdlPv, (void *block), (block), free, (block))                                               \
    X(_ZdaPv, (void *block), (block), _ZdlPv, (block))                                             \
    X(_ZdlPvm, (void *block, size_t size), (block, size), _ZdlPv, (block))                         \
    X(_ZdaPvm, (void *block, size_t size), (block, size), _ZdaPv, (block))                         \
    X(_ZdlPvRKSt9nothrow_t, (void *block, const void *tag), (block, tag), _ZdlPv, (block))         \
    X(_ZdaPvRKSt9nothrow_t, (void *block, const void *tag), (block, tag), _ZdaPv, (block))         \
    X(_ZdlPvSt11align_val_t, (void *block, size_t alignment), (block, alignment), free, (block))   \
    X(_ZdaPvSt11align_val_t, (void *block, size_t alignment), (block, alignment),                  \
            _ZdlPvSt11align_val_t, (block, alignment))                                             \
    X(_ZdlPvmSt11align_val_t, (void *block, size_t size, size_t alignment),                        \
            (block, size, alignment), _ZdlPvSt11align_val_t, (block, alignment))                   \
    X(_ZdaPvmSt11align_val_t, (void *block, size_t size, size_t alignment),                        \
            (block, size, alignment), _ZdaPvSt11align_val_t, (block, alignment))                   \
    X(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, const void *tag),       \
            (block, alignment, tag), _ZdlPvSt11align_val_t, (block, alignment))                    \
    X(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, const void *tag),       \
            (block, alignment, tag), _ZdaPvSt11align_val_t, (block, alignment))

#endif
