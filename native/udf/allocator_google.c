/* Google's tcmalloc: what its C++ MallocExtension calls by C's names
 * (tcmalloc/internal_malloc_extension.h). */
#include "allocator.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef bool property_function(const char *name, size_t length, size_t *value);
typedef size_t release_function(size_t bytes);

static const char *const properties[] = {
        "generic.current_allocated_bytes",
        "generic.heap_size",
        "generic.physical_memory_used",
        "generic.virtual_memory_used",
        "tcmalloc.pageheap_free_bytes",
        "tcmalloc.pageheap_unmapped_bytes",
        "tcmalloc.central_cache_free",
        "tcmalloc.transfer_cache_free",
        "tcmalloc.sharded_transfer_cache_free",
        "tcmalloc.cpu_free",
        "tcmalloc.thread_cache_free",
        "tcmalloc.metadata_bytes",
        "tcmalloc.sampled_internal_fragmentation",
};

static bool is_in_use(const struct malloc_library *library)
{
    property_function *property;
    return malloc_library_symbol(library, "MallocExtension_Internal_GetNumericProperty", &property);
}

static void write_statistics(const struct malloc_library *library, struct text *text)
{
    property_function *property;
    if (!malloc_library_symbol(library, "MallocExtension_Internal_GetNumericProperty", &property))
        return;
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
        size_t value = 0;
        if (property(properties[i], strlen(properties[i]), &value))
            text_number(text, properties[i], value);
    }
}

static const char *trim(const struct malloc_library *library)
{
    release_function *release;
    if (!malloc_library_symbol(library, "MallocExtension_Internal_ReleaseMemoryToSystem", &release))
        return NULL;
    (void)release(SIZE_MAX);
    return "MallocExtension::ReleaseMemoryToSystem(SIZE_MAX)";
}

const struct allocator allocator_google = {"google-tcmalloc", is_in_use, write_statistics, trim};
