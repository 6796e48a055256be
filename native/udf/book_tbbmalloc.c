/* oneTBB's scalable allocator keeps no books that can be asked for: only its being here, and giving memory back. */
#include "book.h"

#include <stddef.h>
#include <string.h>

typedef int command_function(int command, void *parameter);

enum { CLEAN_ALL_BUFFERS = 0 }; /* TBBMALLOC_CLEAN_ALL_BUFFERS */

static bool here(const struct owner *owner)
{
    /* malloc leads to libtbbmalloc_proxy, which calls libtbbmalloc. */
    const char *slash = strrchr(owner->path, '/');
    command_function *command;
    return strstr(slash != NULL ? slash : owner->path, "tbbmalloc") != NULL &&
           any_symbol("scalable_allocation_command", &command);
}

static void tell(const struct owner *owner, struct text *text)
{
    (void)owner;
    text_string(text, "report", "tbbmalloc keeps no statistics that can be asked for");
}

static const char *trim(const struct owner *owner)
{
    (void)owner;
    command_function *command;
    if (!any_symbol("scalable_allocation_command", &command))
        return NULL;
    (void)command(CLEAN_ALL_BUFFERS, NULL);
    return "scalable_allocation_command(TBBMALLOC_CLEAN_ALL_BUFFERS)";
}

const struct book book_tbbmalloc = {"tbbmalloc", here, tell, trim};
