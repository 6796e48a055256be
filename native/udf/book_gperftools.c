/* gperftools' tcmalloc: its C interface (gperftools/malloc_extension_c.h). */
#include "book.h"

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

static bool here(const struct owner *owner)
{
    property_function *property;
    return owner_symbol(owner, "MallocExtension_GetNumericProperty", &property);
}

static void tell(const struct owner *owner, struct text *text)
{
    property_function *property;
    statistics_function *statistics;
    if (owner_symbol(owner, "MallocExtension_GetNumericProperty", &property)) {
        for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
            size_t value = 0;
            if (property(properties[i], &value) != 0)
                text_number(text, properties[i], value);
        }
    }
    /* What its metadata take stands nowhere but in its report. */
    if (owner_symbol(owner, "MallocExtension_GetStats", &statistics)) {
        char report[8192];
        report[0] = '\0';
        statistics(report, sizeof report);
        report[sizeof report - 1] = '\0';
        const struct text_mark mark = text_here(text);
        text_string(text, "report", report);
        text_keep(text, mark);
    }
}

static const char *trim(const struct owner *owner)
{
    release_function *release;
    if (!owner_symbol(owner, "MallocExtension_ReleaseFreeMemory", &release))
        return NULL;
    release();
    return "MallocExtension_ReleaseFreeMemory()";
}

const struct book book_gperftools = {"gperftools", here, tell, trim};
