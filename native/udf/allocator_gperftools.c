/* gperftools' tcmalloc: its C interface (gperftools/malloc_extension_c.h). */
#include "allocator.h"

#include <stddef.h>

typedef int property_function(const char *name, size_t *value);
typedef void statistics_function(char *buffer, int size);
typedef void release_function(void);

static const char *const properties[] = {
        "generic.current_allocated_bytes",
        "generic.heap_size",
        "generic.total_physical_bytes",
        "tcmalloc.pageheap_free_bytes",
        "tcmalloc.pageheap_unmapped_bytes",
        "tcmalloc.max_total_thread_cache_bytes",
        "tcmalloc.current_total_thread_cache_bytes",
        "tcmalloc.central_cache_free_bytes",
        "tcmalloc.transfer_cache_free_bytes",
        "tcmalloc.thread_cache_free_bytes",
};

static bool is_in_use(const struct malloc_library *library)
{
    property_function *property;
    return malloc_library_symbol(library, "MallocExtension_GetNumericProperty", &property);
}

static void write_statistics(const struct malloc_library *library, struct text *text)
{
    property_function *property;
    statistics_function *statistics;
    if (malloc_library_symbol(library, "MallocExtension_GetNumericProperty", &property)) {
        for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
            size_t value = 0;
            if (property(properties[i], &value) != 0)
                text_number(text, properties[i], value);
        }
    }
    /* What its metadata take stands nowhere but in its report. */
    if (malloc_library_symbol(library, "MallocExtension_GetStats", &statistics)) {
        char report[8192];
        report[0] = '\0';
        statistics(report, sizeof report);
        report[sizeof report - 1] = '\0';
        const struct text_mark mark = text_here(text);
        text_string(text, "report", report);
        text_keep(text, mark);
    }
}

static const char *trim(const struct malloc_library *library)
{
    release_function *release;
    if (!malloc_library_symbol(library, "MallocExtension_ReleaseFreeMemory", &release))
        return NULL;
    release();
    return "MallocExtension_ReleaseFreeMemory()";
}

const struct allocator allocator_gperftools = {"gperftools", is_in_use, write_statistics, trim};
