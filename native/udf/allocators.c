#include "allocator.h"

#include <stddef.h>

/* scudo has a malloc_info and a mallinfo of its own, as glibc has, so it is asked first. */
static const struct allocator *const allocators[] = {
        &allocator_jemalloc,
        &allocator_google,
        &allocator_gperftools,
        &allocator_mimalloc,
        &allocator_tbbmalloc,
        &allocator_scudo,
        &allocator_glibc,
        NULL,
};

const struct allocator *find_allocator(const struct malloc_library *library)
{
    const struct allocator *const *allocator = allocators;
    while (*allocator != NULL && !(*allocator)->is_in_use(library))
        allocator++;
    return *allocator;
}
