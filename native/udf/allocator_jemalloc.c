/* jemalloc: mallctl(3), by the names of its manual. What a version does not have is left out. */
#include "allocator.h"

#include <stdint.h>
#include <stdio.h>

typedef int mallctl_function(
        const char *name, void *old, size_t *old_size, void *new, size_t new_size);

/* MALLCTL_ARENAS_ALL of 5.0 and later: an index that stands for all arenas together. */
enum { EVERY_ARENA = 4096, MOST_BINS = 4096 };

static const char *const whole[] = {
        "stats.allocated",
        "stats.active",
        "stats.metadata",
        "stats.metadata_thp",
        "stats.resident",
        "stats.mapped",
        "stats.retained",
        "opt.dirty_decay_ms",
        "opt.muzzy_decay_ms",
        "arenas.page",
};
static const char *const of_arena[] = {
        "nthreads",
        "pactive",
        "pdirty",
        "pmuzzy",
        "mapped",
        "retained",
        "base",
        "internal",
        "resident",
        "tcache_bytes",
        "small.allocated",
        "large.allocated",
        "huge.allocated",
};
static const char *const of_bin[] = {"curregs", "curslabs", "nmalloc", "ndalloc"};
static const char *const of_class[] = {"size", "nregs", "slab_size"};

static bool is_in_use(const struct malloc_library *library)
{
    mallctl_function *mallctl;
    return malloc_library_symbol(library, "mallctl", &mallctl);
}

/* Any unsigned number of 32 or 64 bits; false if there is none of that name. */
static bool number(mallctl_function *mallctl, const char *name, uint64_t *value)
{
    uint64_t wide = 0;
    size_t size = sizeof wide;
    if (mallctl(name, &wide, &size, NULL, 0) == 0) {
        *value = wide;
        return true;
    }
    uint32_t narrow = 0;
    size = sizeof narrow;
    if (mallctl(name, &narrow, &size, NULL, 0) != 0)
        return false;
    *value = narrow;
    return true;
}

static void tell_all(mallctl_function *mallctl, struct text *text, const char *before,
        const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char name[96];
        uint64_t value;
        (void)snprintf(name, sizeof name, "%s%s", before, names[i]);
        if (number(mallctl, name, &value))
            text_number(text, names[i], value);
    }
}

static void tell_arenas(mallctl_function *mallctl, struct text *text)
{
    uint64_t count = 0;
    (void)number(mallctl, "arenas.narenas", &count);
    count = count < EVERY_ARENA ? count
                                : EVERY_ARENA; /* a number that it could not count to is none */
    const struct text_mark before_list = text_here(text);
    text_open(text, "arenas", '[');
    if (!text_keep(text, before_list))
        return;
    for (unsigned i = 0; i < count; i++) {
        char before[64];
        uint64_t active;
        (void)snprintf(before, sizeof before, "stats.arenas.%u.pactive", i);
        if (!number(mallctl, before, &active))
            continue; /* one that no thread has used */
        (void)snprintf(before, sizeof before, "stats.arenas.%u.", i);
        const struct text_mark mark = text_here(text);
        text_open(text, NULL, '{');
        text_number(text, "arena", i);
        tell_all(mallctl, text, before, of_arena, sizeof of_arena / sizeof *of_arena);
        text_close(text, '}');
        if (!text_keep(text, mark))
            break;
    }
    text_close(text, ']');
}

/* Small sizes, all arenas together: what their slabs hold, and how much of it is in use. */
static void tell_bins(mallctl_function *mallctl, struct text *text)
{
    uint64_t count = 0;
    (void)number(mallctl, "arenas.nbins", &count);
    count = count < MOST_BINS ? count : MOST_BINS;
    const struct text_mark before_list = text_here(text);
    text_open(text, "bins", '[');
    if (!text_keep(text, before_list))
        return;
    for (unsigned i = 0; i < count; i++) {
        char before[64];
        const struct text_mark mark = text_here(text);
        text_open(text, NULL, '{');
        (void)snprintf(before, sizeof before, "arenas.bin.%u.", i);
        tell_all(mallctl, text, before, of_class, sizeof of_class / sizeof *of_class);
        (void)snprintf(before, sizeof before, "stats.arenas.%d.bins.%u.", EVERY_ARENA, i);
        tell_all(mallctl, text, before, of_bin, sizeof of_bin / sizeof *of_bin);
        text_close(text, '}');
        if (!text_keep(text, mark))
            break;
    }
    text_close(text, ']');
}

static void write_statistics(const struct malloc_library *library, struct text *text)
{
    mallctl_function *mallctl;
    if (!malloc_library_symbol(library, "mallctl", &mallctl))
        return;
    /* Statistics are a snapshot, which advancing the epoch takes. */
    uint64_t epoch = 1;
    (void)mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    const char *version;
    size_t size = sizeof version;
    if (mallctl("version", (void *)&version, &size, NULL, 0) == 0)
        text_string(text, "version", version);
    tell_all(mallctl, text, "", whole, sizeof whole / sizeof *whole);
    tell_arenas(mallctl, text);
    tell_bins(mallctl, text);
}

static const char *trim(const struct malloc_library *library)
{
    mallctl_function *mallctl;
    if (!malloc_library_symbol(library, "mallctl", &mallctl))
        return NULL;
    (void)mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
    if (mallctl("arena.4096.purge", NULL, NULL, NULL, 0) == 0)
        return "arena.4096.purge";
    /* Before 5.0 the number of arenas stood for all of them. */
    char name[64];
    uint64_t count = 0;
    if (!number(mallctl, "arenas.narenas", &count))
        return NULL;
    (void)snprintf(name, sizeof name, "arena.%u.purge", (unsigned)count);
    return mallctl(name, NULL, NULL, NULL, 0) == 0 ? "arena.<narenas>.purge" : NULL;
}

const struct allocator allocator_jemalloc = {"jemalloc", is_in_use, write_statistics, trim};
