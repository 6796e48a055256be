/* Finding the next allocator: by dlsym(RTLD_NEXT), at the first call of anything.
 *
 * dlsym may itself call calloc or malloc (glibc's dlerror does), which leads here again before there is an answer. Such
 * calls get early blocks, from a small array that is never freed. All this happens while the loader starts the program,
 * in its one thread.
 *
 * libstdc++'s operators call malloc. If the next operators belong to another library than the next malloc, they are left
 * out: malloc is called here, so that an allocation is counted once, with its own caller; libstdc++'s operator is asked
 * only where malloc fails, for it knows about new_handler and bad_alloc.
 */
#include "next.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "filter.h"

enum { EARLY_SIZE = 1 << 16, EARLY_HEAD = 16 };

static _Alignas(4096) unsigned char early[EARLY_SIZE];
static size_t early_used;
static bool looking;

/* The operators of C++'s own library, where they are not used but for a failing malloc. */
static struct next fallback;

bool next_is_early(const void *block)
{
    return (uintptr_t)block - (uintptr_t)early < EARLY_SIZE;
}

size_t next_early_size(const void *block)
{
    size_t size = 0;
    memcpy(&size, (const unsigned char *)block - EARLY_HEAD, sizeof size);
    return size;
}

/* Zeroed, as calloc wants it. The filter lets free and realloc look twice at such blocks. */
static void *early_block(size_t alignment, size_t size)
{
    if (alignment < EARLY_HEAD)
        alignment = EARLY_HEAD;
    const size_t at = (early_used + EARLY_HEAD + alignment - 1) / alignment * alignment;
    if (at > EARLY_SIZE || size > EARLY_SIZE - at) {
        errno = ENOMEM;
        return NULL;
    }
    early_used = at + size;
    memcpy(early + at - EARLY_HEAD, &size, sizeof size);
    filter_pin(early + at);
    return early + at;
}

/* dlsym returns an object pointer; POSIX lets it be a function's (dlsym(3) casts so). */
static void find(void *pointer, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(pointer, &found, sizeof found);
}

/* The library that holds an address, as the place where it is mapped; NULL if there is none. */
static const void *library(const void *pointer)
{
    const void *address = NULL;
    memcpy(&address, pointer, sizeof address);
    Dl_info info;
    return address != NULL && dladdr(address, &info) != 0 ? info.dli_fbase : NULL;
}

static void *plain(size_t size)
{
    return next.malloc(size != 0 ? size : 1);
}

static void *aligned(size_t alignment, size_t size)
{
    void *block = NULL;
    if (alignment < sizeof(void *))
        alignment = sizeof(void *);
    return next.posix_memalign(&block, alignment, size != 0 ? size : 1) == 0 ? block : NULL;
}

#define BY_MALLOC(name, parameters, arguments, allocation)                                                             \
    static void *by_malloc_##name parameters                                                                           \
    {                                                                                                                  \
        void *block = allocation;                                                                                      \
        if (__builtin_expect(block != NULL, 1))                                                                        \
            return block;                                                                                              \
        if (fallback.name == NULL)                                                                                     \
            find(&fallback.name, #name); /* libstdc++ may have come later, by dlopen */                                \
        if (fallback.name == NULL)                                                                                     \
            abort(); /* bad_alloc cannot be thrown without libstdc++ */                                                \
        return fallback.name arguments;                                                                                \
    }
NEW_FUNCTIONS(BY_MALLOC)

/* Sizes, alignments and tags say nothing to free. */
#define BY_FREE(name, parameters, arguments)                                                                           \
    static void by_free_##name parameters                                                                              \
    {                                                                                                                  \
        next.free(block);                                                                                              \
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
DELETE_FUNCTIONS(BY_FREE) /* NOLINT(misc-unused-parameters) */
#pragma GCC diagnostic pop

static void sized_free(void *block, size_t size)
{
    (void)size;
    next.free(block);
}

static void aligned_sized_free(void *block, size_t alignment, size_t size)
{
    (void)alignment;
    (void)size;
    next.free(block);
}

static size_t no_usable_size(void *block)
{
    (void)block;
    return 0;
}

/* Ends the program if there is no malloc at all, which cannot be where there is a C library. */
static void look(void)
{
    struct next found;
    looking = true;
#define FIND(name, ...) find(&found.name, #name);
    ALLOCATING_FUNCTIONS(FIND)
    FREEING_FUNCTIONS(FIND)
    NEW_FUNCTIONS(FIND)
    DELETE_FUNCTIONS(FIND)
#undef FIND
    find(&found.realloc, "realloc");
    find(&found.posix_memalign, "posix_memalign");
    find(&found.malloc_usable_size, "malloc_usable_size");
    if (found.malloc == NULL || found.calloc == NULL || found.realloc == NULL || found.free == NULL)
        abort();

    const void *home = library(&found.malloc);
#define CHOOSE(name, ...)                                                                                              \
    fallback.name = found.name;                                                                                        \
    if (found.name == NULL || library(&found.name) != home)                                                            \
        found.name = by_malloc_##name;
    NEW_FUNCTIONS(CHOOSE)
#undef CHOOSE
#define CHOOSE(name, ...)                                                                                              \
    if (found.name == NULL || library(&found.name) != home)                                                            \
        found.name = by_free_##name;
    DELETE_FUNCTIONS(CHOOSE)
#undef CHOOSE
    if (found.free_sized == NULL || library(&found.free_sized) != home)
        found.free_sized = sized_free;
    if (found.free_aligned_sized == NULL || library(&found.free_aligned_sized) != home)
        found.free_aligned_sized = aligned_sized_free;
    if (found.malloc_usable_size == NULL)
        found.malloc_usable_size = no_usable_size;
    next = found;
    looking = false;
}

static size_t product(size_t count, size_t size)
{
    size_t bytes = 0;
    return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

/* What stands in `next` before the first call of anything. */
#define FIRST(name, parameters, arguments, bytes)                                                                      \
    static void *first_##name parameters                                                                               \
    {                                                                                                                  \
        if (looking)                                                                                                   \
            return early_block(EARLY_ALIGNMENT_##name, bytes);                                                         \
        look();                                                                                                        \
        return next.name arguments;                                                                                    \
    }
#define EARLY_ALIGNMENT_malloc 1
#define EARLY_ALIGNMENT_calloc 1
#define EARLY_ALIGNMENT_memalign alignment
#define EARLY_ALIGNMENT_aligned_alloc alignment
#define EARLY_ALIGNMENT_valloc 4096
#define EARLY_ALIGNMENT_pvalloc 4096
ALLOCATING_FUNCTIONS(FIRST)
#undef FIRST

#define FIRST(name, parameters, arguments, allocation)                                                                 \
    static void *first_##name parameters                                                                               \
    {                                                                                                                  \
        look();                                                                                                        \
        return next.name arguments;                                                                                    \
    }
NEW_FUNCTIONS(FIRST)
#undef FIRST

#define FIRST(name, parameters, arguments)                                                                             \
    static void first_##name parameters                                                                                \
    {                                                                                                                  \
        if (looking)                                                                                                   \
            return;                                                                                                    \
        look();                                                                                                        \
        next.name arguments;                                                                                           \
    }
FREEING_FUNCTIONS(FIRST)
DELETE_FUNCTIONS(FIRST)
#undef FIRST

static void *first_realloc(void *block, size_t size)
{
    if (looking)
        return block == NULL ? early_block(1, size) : NULL;
    look();
    return next.realloc(block, size);
}

static int first_posix_memalign(void **block, size_t alignment, size_t size)
{
    if (looking)
        return (*block = early_block(alignment, size)) != NULL ? 0 : ENOMEM;
    look();
    return next.posix_memalign(block, alignment, size);
}

static size_t first_malloc_usable_size(void *block)
{
    look();
    return next.malloc_usable_size(block);
}

struct next next = {
#define INITIAL(name, ...) .name = first_##name,
        ALLOCATING_FUNCTIONS(INITIAL) FREEING_FUNCTIONS(INITIAL) NEW_FUNCTIONS(INITIAL) DELETE_FUNCTIONS(INITIAL)
#undef INITIAL
                .realloc = first_realloc,
        .posix_memalign = first_posix_memalign,
        .malloc_usable_size = first_malloc_usable_size,
};
