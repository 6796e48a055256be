/* The next allocator: the one that the program would have without the preload. */
#ifndef DBALLOC_PRELOAD_NEXT_ALLOCATOR_H
#define DBALLOC_PRELOAD_NEXT_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "functions.h"

/* An operator that `passes` ends in one of the program's own. Nothing is sampled or taken out of
 * the tables for it: what it has from malloc is seen there. */
struct next {
#define POINTER(name, parameters, ...) void *(*name)parameters;
    ALLOCATING_FUNCTIONS(POINTER)
    NEW_FUNCTIONS(POINTER)
#undef POINTER
#define POINTER(name, parameters, ...) void(*name) parameters;
    FREEING_FUNCTIONS(POINTER)
    DELETE_FUNCTIONS(POINTER)
#undef POINTER
    void *(*realloc)(void *block, size_t size);
    int (*posix_memalign)(void **block, size_t alignment, size_t size);
    size_t (*malloc_usable_size)(void *block);
    void *(*realloc_before)(
            void *block, size_t size); /* of an object before us, the program for one; else NULL */
    struct {
#define FLAG(name, ...) bool name;
        NEW_FUNCTIONS(FLAG)
        DELETE_FUNCTIONS(FLAG)
#undef FLAG
    } passes;
};

/* Always callable: before the next allocator is known, its members find it first. */
extern struct next next;

enum { NEXT_EARLY_SIZE = 1 << 16 };

extern unsigned char next_early[NEXT_EARLY_SIZE];

/* Whether a block is of the few that were handed out while the next allocator was looked for. They
 * are never freed. */
static inline bool next_is_early(const void *block)
{
    return (uintptr_t)block - (uintptr_t)next_early < NEXT_EARLY_SIZE;
}

/* Whether the next allocator is being looked for: the blocks handed out meanwhile are early. */
bool next_is_looking(void);

/* The bytes of an early block that may be copied from it. */
size_t next_early_size(const void *block);

#endif
