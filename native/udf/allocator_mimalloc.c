/* mimalloc: mi_process_info, its report, and in 2.2, 3.1 and later its statistics as JSON. Release
 * builds count no blocks (MI_STAT is 0 there), so what is live is not known of them.
 */
#include "allocator.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef int version_function(void);
typedef void output_function(const char *message, void *argument);
typedef void print_function(output_function *output, void *argument);
typedef char *json_function(size_t size, char *buffer);
typedef void collect_function(bool force);
typedef void process_function(size_t *elapsed, size_t *user, size_t *system, size_t *rss,
        size_t *peak_rss, size_t *commit, size_t *peak_commit, size_t *faults);

static bool is_in_use(const struct malloc_library *library)
{
    version_function *version;
    return malloc_library_symbol(library, "mi_version", &version);
}

static void add(const char *message, void *argument)
{
    text_string_add(argument, message, strlen(message));
}

static void write_statistics(const struct malloc_library *library, struct text *text)
{
    version_function *version;
    process_function *process;
    json_function *json;
    print_function *print;
    if (malloc_library_symbol(library, "mi_version", &version))
        text_number(text, "version", (uint64_t)version());
    if (malloc_library_symbol(library, "mi_process_info", &process)) {
        size_t elapsed, user, system, rss, peak_rss, commit, peak_commit, faults;
        process(&elapsed, &user, &system, &rss, &peak_rss, &commit, &peak_commit, &faults);
        text_number(text, "current_commit", commit);
        text_number(text, "peak_commit", peak_commit);
    }
    struct text_mark mark = text_here(text);
    if (malloc_library_symbol(library, "mi_stats_get_json", &json)) {
        char *found = json(0, NULL);
        if (found != NULL) {
            text_string(text, "stats", found);
            free(found); /* mimalloc's own, for it is the malloc in use */
        }
    } else if (malloc_library_symbol(library, "mi_stats_print_out", &print)) {
        text_string_open(text, "report");
        print(add, text);
        text_string_close(text);
    }
    text_keep(text, mark);
}

static const char *trim(const struct malloc_library *library)
{
    collect_function *collect;
    if (!malloc_library_symbol(library, "mi_collect", &collect))
        return NULL;
    collect(true);
    return "mi_collect(true)";
}

const struct allocator allocator_mimalloc = {"mimalloc", is_in_use, write_statistics, trim};
