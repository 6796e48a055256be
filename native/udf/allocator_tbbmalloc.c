/* oneTBB's scalable allocator keeps no books that can be asked for: only its being here, and giving
 * memory back. */
#include "allocator.h"

#include <stddef.h>
#include <string.h>

typedef int command_function(int command, void *parameter);

enum { CLEAN_ALL_BUFFERS = 0 }; /* TBBMALLOC_CLEAN_ALL_BUFFERS */

static bool is_in_use(const struct malloc_library *library)
{
    /* malloc leads to libtbbmalloc_proxy, which calls libtbbmalloc. */
    const char *slash = strrchr(library->path, '/');
    command_function *command;
    return strstr(slash != NULL ? slash : library->path, "tbbmalloc") != NULL &&
           any_symbol("scalable_allocation_command", &command);
}

static void write_statistics(const struct malloc_library *library, struct text *text)
{
    (void)library;
    text_string(text, "report", "tbbmalloc keeps no statistics that can be asked for");
}

static const char *trim(const struct malloc_library *library)
{
    (void)library;
    command_function *command;
    if (!any_symbol("scalable_allocation_command", &command))
        return NULL;
    (void)command(CLEAN_ALL_BUFFERS, NULL);
    return "scalable_allocation_command(TBBMALLOC_CLEAN_ALL_BUFFERS)";
}

const struct allocator allocator_tbbmalloc = {"tbbmalloc", is_in_use, write_statistics, trim};
