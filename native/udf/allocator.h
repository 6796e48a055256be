/* One allocator: how it is known, what it says of itself, how it is asked to give memory
 * back.
 *
 * An allocator is a file allocator_NAME.c and an entry of the table in allocators.c.
 */
#ifndef DBALLOC_UDF_ALLOCATOR_H
#define DBALLOC_UDF_ALLOCATOR_H

#include "malloc_library.h"
#include "text.h"

struct allocator {
    const char *name;
    /* Whether the malloc in use is this one. */
    bool (*is_in_use)(const struct malloc_library *library);
    /* Its figures, as fields of the object that `text` is in. */
    void (*write_statistics)(const struct malloc_library *library, struct text *text);
    /* Have it give back to the kernel what it holds free. What was called, in words; NULL if it
     * cannot be asked. */
    const char *(*trim)(const struct malloc_library *library);
};

/* The allocator in use; NULL if it is none that we know. */
const struct allocator *find_allocator(const struct malloc_library *library);

extern const struct allocator allocator_glibc, allocator_google, allocator_gperftools,
        allocator_jemalloc, allocator_mimalloc, allocator_scudo, allocator_tbbmalloc;

#endif
