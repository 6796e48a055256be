/* The functions that the program calls instead of the next allocator's. What is rare (large blocks,
 * alignment, blocks of ours, early ones) goes another way, slow_…, by a jump (a tail call, with
 * optimisation), so that its return address is the caller's. Built with -fexceptions, because
 * operator new throws through it.
 */
#include <errno.h>
#include <string.h>

#include "large.h"
#include "memory.h"
#include "next_allocator.h"
#include "recorder.h"
#include "sites.h"

#define EXPORT __attribute__((visibility("default")))
#define SLOW static __attribute__((noinline))
#define PLACE sites_place(__builtin_return_address(0), __builtin_frame_address(0))

static inline size_t product(size_t count, size_t size)
{
    size_t bytes = 0;
    return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX - 1 : bytes;
}

/* What becomes of any other alignment is the next allocator's to say: glibc's memalign takes the next
 * power of two, others refuse it. */
static inline bool is_alignment(size_t alignment)
{
    return alignment != 0 && (alignment & (alignment - 1)) == 0;
}

/* What a function's calls are recorded as, and the alignment that it asks for. */
#define KIND_malloc MALLOC
#define KIND_calloc CALLOC
#define KIND_memalign ALIGNED
#define KIND_aligned_alloc ALIGNED
#define KIND_valloc ALIGNED
#define KIND_pvalloc ALIGNED
#define KIND__Znwm MALLOC
#define KIND__Znam MALLOC
#define KIND__ZnwmRKSt9nothrow_t MALLOC
#define KIND__ZnamRKSt9nothrow_t MALLOC
#define KIND__ZnwmSt11align_val_t ALIGNED
#define KIND__ZnamSt11align_val_t ALIGNED
#define KIND__ZnwmSt11align_val_tRKSt9nothrow_t ALIGNED
#define KIND__ZnamSt11align_val_tRKSt9nothrow_t ALIGNED
#define ALIGNMENT_malloc 0
#define ALIGNMENT_calloc 0
#define ALIGNMENT_memalign alignment
#define ALIGNMENT_aligned_alloc alignment
#define ALIGNMENT_valloc memory_page_size()
#define ALIGNMENT_pvalloc memory_page_size()
#define ALIGNMENT__Znwm 0
#define ALIGNMENT__Znam 0
#define ALIGNMENT__ZnwmRKSt9nothrow_t 0
#define ALIGNMENT__ZnamRKSt9nothrow_t 0
#define ALIGNMENT__ZnwmSt11align_val_t alignment
#define ALIGNMENT__ZnamSt11align_val_t alignment
#define ALIGNMENT__ZnwmSt11align_val_tRKSt9nothrow_t alignment
#define ALIGNMENT__ZnamSt11align_val_tRKSt9nothrow_t alignment

/* Some libraries' operators call malloc's functions by their names (jemalloc's operator delete calls
 * free), and so come here a second time: what they call is not the program's. Nor is what a new
 * handler does, which they call; operator new may throw through this. */
static inline uint8_t enter_operator(void)
{
    const uint8_t before = thread.busy;
    thread.busy = before | BUSY_OWN;
    atomic_signal_fence(memory_order_seq_cst);
    return before;
}

static inline void leave_operator(const uint8_t *before)
{
    atomic_signal_fence(memory_order_seq_cst);
    thread.busy = *before;
}

#define IN_OPERATOR __attribute__((cleanup(leave_operator))) const uint8_t before = enter_operator()
#define CALL_NEW(name, parameters, arguments, ...)                                                 \
    static inline void *call_##name parameters                                                     \
    {                                                                                              \
        IN_OPERATOR;                                                                               \
        return next.name arguments;                                                                \
    }
NEW_FUNCTIONS(CALL_NEW)
#undef CALL_NEW
#define CALL_DELETE(name, parameters, arguments, ...)                                              \
    static inline void call_##name parameters                                                      \
    {                                                                                              \
        IN_OPERATOR;                                                                               \
        next.name arguments;                                                                       \
    }
DELETE_FUNCTIONS(CALL_DELETE)
#undef CALL_DELETE

/* Where `passes` holds, the call ends in an operator of the program's own: what that has from malloc
 * is recorded there. */
#define ALLOCATION(name, parameters, arguments, requested, passes, call)                           \
    SLOW void *slow_##name parameters                                                              \
    {                                                                                              \
        uint32_t site = 0;                                                                         \
        void *block = NULL;                                                                        \
        const bool is_usual = KIND_##name != ALIGNED || is_alignment(ALIGNMENT_##name);            \
        if (large_is(requested) && is_usual)                                                       \
            block = large_allocate(requested, ALIGNMENT_##name, PLACE, &site);                     \
        if (block == NULL)                                                                         \
            block = call arguments;                                                                \
        if (block != NULL)                                                                         \
            record_special(KIND_##name, block, requested, ALIGNMENT_##name, site);                 \
        return block;                                                                              \
    }                                                                                              \
    EXPORT void *name parameters;                                                                  \
    EXPORT void *name parameters                                                                   \
    {                                                                                              \
        if (passes)                                                                                \
            return next.name arguments;                                                            \
        if (KIND_##name == ALIGNED || __builtin_expect(large_is(requested), 0))                    \
            return slow_##name arguments;                                                          \
        void *block = call arguments;                                                              \
        if (__builtin_expect(block == NULL, 0))                                                    \
            return NULL;                                                                           \
        return record_allocation(KIND_##name, block, requested);                                   \
    }
#define FAMILY(name, parameters, arguments, requested)                                             \
    ALLOCATION(name, parameters, arguments, requested, false, next.name)
ALLOCATING_FUNCTIONS(FAMILY)
#undef FAMILY
#define OPERATOR_NEW(name, parameters, arguments, called, its_arguments)                           \
    ALLOCATION(name, parameters, arguments, size, next.passes.name, call_##name)
NEW_FUNCTIONS(OPERATOR_NEW)

/* The size that is passed on to a malloc, and 0 of functions that take none. */
#define SIZE_free 0
#define SIZE_free_sized size
#define SIZE_free_aligned_sized size
#define SIZE__ZdlPv 0
#define SIZE__ZdaPv 0
#define SIZE__ZdlPvm size
#define SIZE__ZdaPvm size
#define SIZE__ZdlPvRKSt9nothrow_t 0
#define SIZE__ZdaPvRKSt9nothrow_t 0
#define SIZE__ZdlPvSt11align_val_t 0
#define SIZE__ZdaPvSt11align_val_t 0
#define SIZE__ZdlPvmSt11align_val_t size
#define SIZE__ZdaPvmSt11align_val_t size
#define SIZE__ZdlPvSt11align_val_tRKSt9nothrow_t 0
#define SIZE__ZdaPvSt11align_val_tRKSt9nothrow_t 0
#define KIND_free FREE
#define KIND_free_sized FREE_SIZED
#define KIND_free_aligned_sized FREE_SIZED
#define KIND__ZdlPv FREE
#define KIND__ZdaPv FREE
#define KIND__ZdlPvm FREE_SIZED
#define KIND__ZdaPvm FREE_SIZED
#define KIND__ZdlPvRKSt9nothrow_t FREE
#define KIND__ZdaPvRKSt9nothrow_t FREE
#define KIND__ZdlPvSt11align_val_t FREE
#define KIND__ZdaPvSt11align_val_t FREE
#define KIND__ZdlPvmSt11align_val_t FREE_SIZED
#define KIND__ZdaPvmSt11align_val_t FREE_SIZED
#define KIND__ZdlPvSt11align_val_tRKSt9nothrow_t FREE
#define KIND__ZdaPvSt11align_val_tRKSt9nothrow_t FREE

#define RELEASE(name, parameters, arguments, passes, call)                                         \
    SLOW void slow_##name parameters                                                               \
    {                                                                                              \
        if (block != NULL && next_is_early(block))                                                 \
            return;                                                                                \
        if (passes) {                                                                              \
            next.name arguments;                                                                   \
            return;                                                                                \
        }                                                                                          \
        if (block != NULL && large_free(KIND_##name, block, SIZE_##name))                          \
            return;                                                                                \
        if (block != NULL)                                                                         \
            record_free(KIND_##name, block, SIZE_##name);                                          \
        call arguments;                                                                            \
    }                                                                                              \
    EXPORT void name parameters;                                                                   \
    EXPORT void name parameters                                                                    \
    {                                                                                              \
        if (__builtin_expect(touches_may_be(block) || next_is_early(block), 0)) {                  \
            slow_##name arguments;                                                                 \
            return;                                                                                \
        }                                                                                          \
        if (passes) {                                                                              \
            next.name arguments;                                                                   \
            return;                                                                                \
        }                                                                                          \
        record_free(KIND_##name, block, SIZE_##name);                                              \
        call arguments;                                                                            \
    }
#define FAMILY(name, parameters, arguments) RELEASE(name, parameters, arguments, false, next.name)
FREEING_FUNCTIONS(FAMILY)
#undef FAMILY
#define OPERATOR_DELETE(name, parameters, arguments, called, its_arguments)                        \
    RELEASE(name, parameters, arguments, next.passes.name, call_##name)
DELETE_FUNCTIONS(OPERATOR_DELETE)

EXPORT int posix_memalign(void **block, size_t alignment, size_t size);
EXPORT int posix_memalign(void **block, size_t alignment, size_t size)
{
    uint32_t site = 0;
    void *large = NULL;
    const bool is_valid = alignment >= sizeof(void *) && is_alignment(alignment);
    if (is_valid && large_is(size))
        large = large_allocate(size, alignment, PLACE, &site);
    if (large != NULL)
        *block = large;
    const int error = large != NULL ? 0 : next.posix_memalign(block, alignment, size);
    if (error == 0 && *block != NULL)
        record_special(ALIGNED, *block, size, alignment, site);
    return error;
}

/* An early block moves to the next allocator's memory; it is left behind. */
static void *grow_early(const void *block, size_t size)
{
    void *copy = next.malloc(size);
    if (copy != NULL) {
        const size_t before = next_early_size(block);
        memcpy(copy, block, before < size ? before : size);
        return record_allocation(MALLOC, copy, size);
    }
    return copy;
}

/* Does with a block of ours what the next allocator does: some free it, others give one of no bytes. */
static void *shrink_to_nothing(const void *block)
{
    (void)large_free(FREE, block, 0);
    void *small = next.malloc(1);
    void *result = small != NULL ? next.realloc(small, 0) : NULL;
    if (result != NULL)
        return record_allocation(MALLOC, result, 0);
    return result;
}

static inline void *reallocate(void *block, size_t size, uintptr_t place)
{
    struct touched_block which;
    if (block != NULL && next_is_early(block))
        return grow_early(block, size);
    if (block != NULL && touches_may_be(block) && touches_is(block, &which))
        return size != 0 ? large_realloc(block, size, &which) : shrink_to_nothing(block);
    const uint64_t generation = recorder_generation();
    const uint64_t before = generation != 0 ? stamp_of_free(block) : 0;
    void *moved = next.realloc(block, size);
    if (generation == 0)
        return moved;
    if (moved != NULL) {
        const uint32_t site = large_is(size) ? sites_number(place) : 0;
        record_realloc(before, block, moved, size, site);
    } else if (moved == NULL && size == 0 && block != NULL) { /* glibc's frees then */
        record_freeing_realloc(generation, before, block);
    }
    return moved;
}

EXPORT void *realloc(void *block, size_t size);
EXPORT void *realloc(void *block, size_t size)
{
    return reallocate(block, size, PLACE);
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
    return reallocate(block, bytes, PLACE);
}

EXPORT size_t malloc_usable_size(void *block);
EXPORT size_t malloc_usable_size(void *block)
{
    struct touched_block which;
    if (block != NULL && next_is_early(block))
        return next_early_size(block);
    if (block != NULL && touches_may_be(block) && touches_is(block, &which))
        return which.size;
    return next.malloc_usable_size(block);
}
