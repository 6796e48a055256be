/* Finding the next allocator: by dlsym(RTLD_NEXT), at the first call of anything.
 *
 * dlsym may itself call calloc or malloc (glibc's dlerror does), which leads here again before
 * there is an answer. Such calls get early blocks, from a small array that is never freed. All this
 * happens while the loader starts the program, in its one thread.
 *
 * The operators of C++'s own library call malloc. Where nobody has replaced them they are left out:
 * malloc is called here, so an allocation is counted once, with its own caller; the library's
 * operator is called only if malloc fails, because it handles new_handler and bad_alloc.
 *
 * A program may replace some operators, in the executable (then ours of that name is never called)
 * or in a library. The other forms end in those by the standard: new[] calls new, and delete with a
 * size the one without. So each operator is looked up twice: who would be asked next, and who is
 * asked by all the process. One that is C++'s library's, but calls one that is the program's,
 * passes: it is called as it is, or what it calls if it is not there.
 */
#include "next_allocator.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#include "image.h"
#include "memory.h"
#include "message.h"
#include "preload.h"

enum { EARLY_HEAD = 16 };

_Alignas(4096) unsigned char next_early[NEXT_EARLY_SIZE];
static size_t early_used;
static bool looking;

/* The operators of C++'s own library, where they are used only if malloc fails. */
static struct next fallback;

bool next_is_looking(void)
{
    return looking;
}

size_t next_early_size(const void *block)
{
    size_t size = 0;
    memcpy(&size, (const unsigned char *)block - EARLY_HEAD, sizeof size);
    return size;
}

/* Zeroed, as calloc wants it. The preload is told, so that free and realloc look twice at such blocks. */
static void *early_block(size_t alignment, size_t size)
{
    if (alignment < EARLY_HEAD)
        alignment = EARLY_HEAD;
    /* Not of the array's start, which a kernel's page may be larger than. */
    const uintptr_t start = (uintptr_t)next_early;
    const size_t at =
            (start + early_used + EARLY_HEAD + alignment - 1) / alignment * alignment - start;
    if (at > NEXT_EARLY_SIZE || size > NEXT_EARLY_SIZE - at) {
        errno = ENOMEM;
        return NULL;
    }
    early_used = at + size;
    memcpy(next_early + at - EARLY_HEAD, &size, sizeof size);
    preload_early_block(next_early + at);
    return next_early + at;
}

/* The functions that all the process is given by these names: ours, or those of an object before
 * us. */
static struct {
#define POINTER(name, parameters, ...) void *(*name)parameters;
    ALLOCATING_FUNCTIONS(POINTER)
    NEW_FUNCTIONS(POINTER)
#undef POINTER
#define POINTER(name, parameters, ...) void(*name) parameters;
    FREEING_FUNCTIONS(POINTER)
    DELETE_FUNCTIONS(POINTER)
#undef POINTER
    void *(*realloc)(void *block, size_t size);
} in_use;

/* Whether the function that the process is given is, or ends in, one of an object that is neither
 * ours, nor malloc's, nor C++'s own library. */
static struct {
    bool malloc, aligned_alloc, free;
#define FLAG(name, ...) bool name;
    NEW_FUNCTIONS(FLAG)
    DELETE_FUNCTIONS(FLAG)
#undef FLAG
} elsewhere;

/* dlsym returns an object pointer; POSIX lets it be a function's (dlsym(3) casts so). */
static void find(void *pointer, void *where, const char *name)
{
    void *found = dlsym(where, name);
    memcpy(pointer, &found, sizeof found);
}

/* The library that defines the function that is pointed at, as the place where it is mapped; NULL
 * if there is none. An executable at a fixed address has an entry of its own for a function whose
 * address it takes, by which all the process calls it, without defining it: then the definition is
 * behind that, and is ours. */
static const void *library(const void *pointer)
{
    const void *address = NULL;
    memcpy(&address, pointer, sizeof address);
    Dl_info info;
    void *entry = NULL;
    if (address == NULL || dladdr1(address, &info, &entry, RTLD_DL_SYMENT) == 0)
        return NULL;
    const ElfW(Sym) *symbol = entry;
    return symbol != NULL && symbol->st_shndx == SHN_UNDEF ? image_start : info.dli_fbase;
}

static void *aligned(size_t alignment, size_t size)
{
    void *block = NULL;
    if (alignment < sizeof(void *))
        alignment = sizeof(void *);
    return next.posix_memalign(&block, alignment, size != 0 ? size : 1) == 0 ? block : NULL;
}

/* By the function at the root of each operator's calls. */
#define PLAIN(size) next.malloc((size) != 0 ? (size) : 1)
#define ALLOCATE__Znwm PLAIN(size)
#define ALLOCATE__Znam PLAIN(size)
#define ALLOCATE__ZnwmRKSt9nothrow_t PLAIN(size)
#define ALLOCATE__ZnamRKSt9nothrow_t PLAIN(size)
#define ALLOCATE__ZnwmSt11align_val_t aligned(alignment, size)
#define ALLOCATE__ZnamSt11align_val_t aligned(alignment, size)
#define ALLOCATE__ZnwmSt11align_val_tRKSt9nothrow_t aligned(alignment, size)
#define ALLOCATE__ZnamSt11align_val_tRKSt9nothrow_t aligned(alignment, size)

/* by_malloc_…: in the place of C++'s own library. by_its_call_…: in the place of the default form,
 * where that is not there. Sizes, alignments and tags say nothing to free. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define BY_MALLOC(name, parameters, arguments, called, its_arguments)                              \
    static void *by_malloc_##name parameters                                                       \
    {                                                                                              \
        void *block = ALLOCATE_##name;                                                             \
        if (__builtin_expect(block != NULL, 1))                                                    \
            return block;                                                                          \
        if (fallback.name == NULL)                                                                 \
            find(&fallback.name, RTLD_NEXT, #name); /* libstdc++ may have come later, by dlopen */ \
        if (fallback.name == NULL)                                                                 \
            message_abort("malloc has no memory for operator new, and std::bad_alloc cannot be "   \
                          "thrown: the program is not linked with libstdc++",                      \
                    "give the process more memory, or link the program with libstdc++");           \
        return fallback.name arguments;                                                            \
    }                                                                                              \
    static void *by_its_call_##name parameters                                                     \
    {                                                                                              \
        return in_use.called its_arguments;                                                        \
    }
NEW_FUNCTIONS(BY_MALLOC) /* NOLINT(misc-unused-parameters) */

#define BY_FREE(name, parameters, arguments, called, its_arguments)                                \
    static void by_free_##name parameters                                                          \
    {                                                                                              \
        next.free(block);                                                                          \
    }                                                                                              \
    static void by_its_call_##name parameters                                                      \
    {                                                                                              \
        in_use.called its_arguments;                                                               \
    }
DELETE_FUNCTIONS(BY_FREE) /* NOLINT(misc-unused-parameters) */
#pragma GCC diagnostic pop

/* C23's functions, where the next malloc has none of its own. They are never the C library's: those
 * call free by its name (glibc 2.43), which would lead to ours a second time. The program's own
 * free, if it has one, is called as it would be without us. */
static void free_by_name(void *block)
{
    (elsewhere.free ? in_use.free : next.free)(block);
}

static void sized_free(void *block, size_t size)
{
    (void)size;
    free_by_name(block);
}

static void aligned_sized_free(void *block, size_t alignment, size_t size)
{
    (void)alignment;
    (void)size;
    free_by_name(block);
}

static size_t no_usable_size(void *block)
{
    (void)block;
    return 0;
}

/* What the process is given; its members of `elsewhere` for what is no operator. */
static void look_at_all(void)
{
#define FIND(name, ...) find(&in_use.name, RTLD_DEFAULT, #name);
    ALLOCATING_FUNCTIONS(FIND)
    FREEING_FUNCTIONS(FIND)
    NEW_FUNCTIONS(FIND)
    DELETE_FUNCTIONS(FIND)
#undef FIND
    find(&in_use.realloc, RTLD_DEFAULT, "realloc");
    elsewhere.malloc = library(&in_use.malloc) != image_start;
    elsewhere.aligned_alloc = library(&in_use.aligned_alloc) != image_start;
    elsewhere.free = library(&in_use.free) != image_start;
}

/* Whether an operator that this library defines is, or ends in, one of the program's, if what it
 * calls by default does. */
static bool is_elsewhere(
        const void *owner, const void *home, const void *runtime, bool what_it_calls)
{
    return owner == NULL || owner == runtime ? what_it_calls : owner != home;
}

/* Finds which function is behind each operator; `home` is the next malloc's library. */
static void look_at_operators(struct next *found, const void *home)
{
    void *handler = NULL;
    find(&handler, RTLD_NEXT,
            "_ZSt15get_new_handlerv"); /* the default forms ask it, and lie beside it */
    const void *runtime = library(&handler);
#define CHOOSE(name, parameters, arguments, called, its_arguments, by)                             \
    {                                                                                              \
        const void *owner = library(&found->name);                                                 \
        const void *first = library(&in_use.name);                                                 \
        fallback.name = found->name;                                                               \
        found->passes.name = is_elsewhere(owner, home, runtime, elsewhere.called);                 \
        elsewhere.name = is_elsewhere(                                                             \
                first == image_start ? owner : first, home, runtime, elsewhere.called);            \
        if (found->passes.name) {                                                                  \
            found->name = owner != NULL ? found->name : by_its_call_##name;                        \
        } else if (owner != home || owner == NULL) {                                               \
            found->name = by##name;                                                                \
        }                                                                                          \
    }
#define CHOOSE_NEW(name, parameters, arguments, called, its_arguments)                             \
    CHOOSE(name, parameters, arguments, called, its_arguments, by_malloc_)
    NEW_FUNCTIONS(CHOOSE_NEW)
#undef CHOOSE_NEW
#define CHOOSE_DELETE(name, parameters, arguments, called, its_arguments)                          \
    CHOOSE(name, parameters, arguments, called, its_arguments, by_free_)
    DELETE_FUNCTIONS(CHOOSE_DELETE)
#undef CHOOSE_DELETE
#undef CHOOSE
}

/* Finds which function is behind each of C23's. */
static void look_at_sized_frees(struct next *found, const void *home)
{
    void *of_glibc = NULL;
    find(&of_glibc, RTLD_NEXT, "gnu_get_libc_version");
    const bool glibc = of_glibc != NULL && library(&of_glibc) == home;
    if (glibc || found->free_sized == NULL || library(&found->free_sized) != home)
        found->free_sized = sized_free;
    if (glibc || found->free_aligned_sized == NULL || library(&found->free_aligned_sized) != home)
        found->free_aligned_sized = aligned_sized_free;
}

/* Ends the program if there is no malloc at all, which cannot be where there is a C library. */
static void look(void)
{
    struct next found = {.passes = {false}};
    looking = true;
#define FIND(name, ...) find(&found.name, RTLD_NEXT, #name);
    ALLOCATING_FUNCTIONS(FIND)
    FREEING_FUNCTIONS(FIND)
    NEW_FUNCTIONS(FIND)
    DELETE_FUNCTIONS(FIND)
#undef FIND
    find(&found.realloc, RTLD_NEXT, "realloc");
    find(&found.posix_memalign, RTLD_NEXT, "posix_memalign");
    find(&found.malloc_usable_size, RTLD_NEXT, "malloc_usable_size");
    if (found.malloc == NULL || found.calloc == NULL || found.realloc == NULL ||
            found.free == NULL) {
        message_abort("no malloc was found behind it",
                "preload it into dynamically linked programs only");
    }

    const void *home = library(&found.malloc);
    look_at_all();
    look_at_operators(&found, home);
    if (library(&in_use.realloc) != image_start)
        found.realloc_before = in_use.realloc;
    look_at_sized_frees(&found, home);
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

/* The contents of `next` before the first call of any function. */
#define FIRST(name, parameters, arguments, bytes)                                                  \
    static void *first_##name parameters                                                           \
    {                                                                                              \
        if (looking)                                                                               \
            return early_block(EARLY_ALIGNMENT_##name, bytes);                                     \
        look();                                                                                    \
        return next.name arguments;                                                                \
    }
#define EARLY_ALIGNMENT_malloc 1
#define EARLY_ALIGNMENT_calloc 1
#define EARLY_ALIGNMENT_memalign alignment
#define EARLY_ALIGNMENT_aligned_alloc alignment
#define EARLY_ALIGNMENT_valloc memory_page_size()
#define EARLY_ALIGNMENT_pvalloc memory_page_size()
ALLOCATING_FUNCTIONS(FIRST)
#undef FIRST

#define FIRST(name, parameters, arguments, ...)                                                    \
    static void *first_##name parameters                                                           \
    {                                                                                              \
        look();                                                                                    \
        return next.name arguments;                                                                \
    }
NEW_FUNCTIONS(FIRST)
#undef FIRST

#define FIRST(name, parameters, arguments)                                                         \
    static void first_##name parameters                                                            \
    {                                                                                              \
        if (looking)                                                                               \
            return;                                                                                \
        look();                                                                                    \
        next.name arguments;                                                                       \
    }
#define FIRST_DELETE(name, parameters, arguments, called, its_arguments)                           \
    FIRST(name, parameters, arguments)
FREEING_FUNCTIONS(FIRST)
DELETE_FUNCTIONS(FIRST_DELETE)
#undef FIRST_DELETE
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
        ALLOCATING_FUNCTIONS(INITIAL) FREEING_FUNCTIONS(INITIAL) NEW_FUNCTIONS(INITIAL)
                DELETE_FUNCTIONS(INITIAL)
#undef INITIAL
                        .realloc = first_realloc,
        .posix_memalign = first_posix_memalign,
        .malloc_usable_size = first_malloc_usable_size,
};
