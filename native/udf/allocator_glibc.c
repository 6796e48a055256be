/* glibc: mallinfo2(3), and malloc_info(3) without its lists of free sizes, which are long and are
 * known from outside. */
#include "allocator.h"

#include <stdio.h>
#include <string.h>
#include <sys/types.h>

/* As mallinfo2 returns it (2.33 and later); mallinfo's ints overflow at 2 GiB, so older ones are
 * not asked. */
struct info {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

typedef struct info mallinfo2_function(void);
typedef int malloc_info_function(int options, FILE *stream);
typedef int malloc_trim_function(size_t pad);

static bool is_in_use(const struct malloc_library *library)
{
    malloc_info_function *malloc_info;
    malloc_trim_function *malloc_trim;
    return malloc_library_symbol(library, "malloc_info", &malloc_info) &&
           malloc_library_symbol(library, "malloc_trim", &malloc_trim);
}

/* A stream into the text, line by line. */
struct lines {
    struct text *text;
    size_t length;
    char line[512];
};

static ssize_t add(void *cookie, const char *bytes, size_t count)
{
    struct lines *lines = cookie;
    for (size_t i = 0; i < count; i++) {
        if (lines->length < sizeof lines->line)
            lines->line[lines->length++] = bytes[i];
        if (bytes[i] != '\n')
            continue;
        static const char indented[] = "  <", list[] = "<sizes>", end[] = "</sizes>";
        const bool listed = strncmp(lines->line, indented, sizeof indented - 1) == 0 ||
                            strncmp(lines->line, list, sizeof list - 1) == 0 ||
                            strncmp(lines->line, end, sizeof end - 1) == 0;
        if (!listed)
            text_string_add(lines->text, lines->line, lines->length);
        lines->length = 0;
    }
    return (ssize_t)count;
}

static void tell_arenas(const struct malloc_library *library, struct text *text)
{
    malloc_info_function *malloc_info;
    if (!malloc_library_symbol(library, "malloc_info", &malloc_info))
        return;
    const struct text_mark before = text_here(text);
    struct lines lines = {.text = text};
    FILE *stream = fopencookie(&lines, "w", (cookie_io_functions_t){.write = add});
    if (stream == NULL)
        return;
    text_string_open(text, "malloc_info");
    const bool told = malloc_info(0, stream) == 0;
    const bool written = fclose(stream) == 0;
    text_string_close(text);
    if (!told || !written)
        text->full = true;
    text_keep(text, before);
}

static void write_statistics(const struct malloc_library *library, struct text *text)
{
    mallinfo2_function *mallinfo2;
    if (malloc_library_symbol(library, "mallinfo2", &mallinfo2)) {
        const struct info info = mallinfo2();
        text_open(text, "mallinfo2", '{');
        text_number(text, "arena", info.arena);
        text_number(text, "hblks", info.hblks);
        text_number(text, "hblkhd", info.hblkhd);
        text_number(text, "fsmblks", info.fsmblks);
        text_number(text, "uordblks", info.uordblks);
        text_number(text, "fordblks", info.fordblks);
        text_number(text, "keepcost", info.keepcost);
        text_close(text, '}');
    }
    tell_arenas(library, text);
}

static const char *trim(const struct malloc_library *library)
{
    malloc_trim_function *malloc_trim;
    if (!malloc_library_symbol(library, "malloc_trim", &malloc_trim))
        return NULL;
    /* Whether something was given back is measured by whoever asked. */
    (void)malloc_trim(0);
    return "malloc_trim(0)";
}

const struct allocator allocator_glibc = {"glibc", is_in_use, write_statistics, trim};
