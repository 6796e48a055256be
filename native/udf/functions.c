/* dballoc_malloc_stats() and dballoc_malloc_trim(): loadable functions of a server, in which its
 * own malloc speaks.
 *
 *     CREATE FUNCTION dballoc_malloc_stats RETURNS STRING SONAME 'dballoc_udf.so'
 *
 * Both return JSON: "format", "malloc" (the file), "allocator" (its name; null if it is none that
 * we know), and then what allocator_NAME.c says, or what was called. What malloc says of itself
 * may be some time old (statistics_cache.h): "age_ms", and "took_us" to ask it. Each use in a
 * statement has a buffer of its own, so they can be called by many connections at a time; the
 * buffer is mapped, and does not lie in the heap that is being told of.
 */
#include "abi.h"
#include "allocator.h"
#include "statistics_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* Below the smallest max_allowed_packet that is usual, 1 MiB. */
enum { BUFFER = 960 * 1024, FORMAT = 1, BEFORE = BUFFER - CACHE_BYTES };

UDF_EXPORT bool dballoc_malloc_stats_init(
        struct udf *udf, struct udf_arguments *arguments, char *message);
UDF_EXPORT void dballoc_malloc_stats_deinit(struct udf *udf);
UDF_EXPORT char *dballoc_malloc_stats(struct udf *udf, struct udf_arguments *arguments,
        char *result, unsigned long *length, char *is_null, char *error);
UDF_EXPORT bool dballoc_malloc_trim_init(
        struct udf *udf, struct udf_arguments *arguments, char *message);
UDF_EXPORT void dballoc_malloc_trim_deinit(struct udf *udf);
UDF_EXPORT char *dballoc_malloc_trim(struct udf *udf, struct udf_arguments *arguments, char *result,
        unsigned long *length, char *is_null, char *error);

/* True, and a message, is a refusal. */
static bool begin(struct udf *udf, const struct udf_arguments *arguments, char *message)
{
    if (arguments->count != 0) {
        (void)snprintf(message, UDF_MESSAGE, "it takes no arguments");
        return true;
    }
    void *buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer == MAP_FAILED) {
        (void)snprintf(message, UDF_MESSAGE, "no memory for its result");
        return true;
    }
    udf->own = buffer;
    udf->max_length = BUFFER;
    udf->maybe_null = true; /* of the first text, while another thread is long in making it */
    udf->constant = false;
    return false;
}

static void end(struct udf *udf)
{
    if (udf->own != NULL)
        (void)munmap(udf->own, BUFFER);
    udf->own = NULL;
}

/* The head of both texts; the malloc's allocator, NULL if it is unknown. */
static const struct allocator *head(
        struct text *text, char *bytes, size_t size, struct malloc_library *library)
{
    const struct allocator *allocator = NULL;
    text_begin(text, bytes, size);
    text_number(text, "format", FORMAT);
    if (find_malloc_library(library)) {
        text_string(text, "malloc", library->path);
        allocator = find_allocator(library);
    }
    if (allocator != NULL)
        text_string(text, "allocator", allocator->name);
    return allocator;
}

/* What malloc says of itself now; how long the text is. */
static size_t ask(char *bytes)
{
    struct text text;
    struct malloc_library library;
    const struct allocator *allocator = head(&text, bytes, CACHE_BYTES, &library);
    if (allocator != NULL)
        allocator->write_statistics(&library, &text);
    text_end(&text);
    return text.length;
}

bool dballoc_malloc_stats_init(struct udf *udf, struct udf_arguments *arguments, char *message)
{
    return begin(udf, arguments, message);
}

void dballoc_malloc_stats_deinit(struct udf *udf)
{
    end(udf);
}

/* The interface's types are not ours to make const. NOLINTBEGIN(readability-non-const-parameter) */
char *dballoc_malloc_stats(struct udf *udf, struct udf_arguments *arguments, char *result,
        unsigned long *length, char *is_null, char *error)
{
    (void)arguments, (void)result, (void)error;
    struct kept kept = {.length = 0};
    char *body = udf->own + BEFORE;
    if (cache_take(body, &kept))
        cache_keep(body, ask(body), &kept);
    if (kept.length == 0) {
        *is_null = 1;
        return NULL;
    }
    /* Its age comes before all else, in place of the bracket that opens the text. */
    const int before =
            snprintf(udf->own, BEFORE, "{\"age_ms\":%" PRIu64 ",\"took_us\":%" PRIu64 ",",
                    kept.age / 1000000, kept.took / 1000);
    memmove(udf->own + before, body + 1, kept.length - 1);
    *length = (unsigned long)before + kept.length - 1;
    return udf->own;
}

bool dballoc_malloc_trim_init(struct udf *udf, struct udf_arguments *arguments, char *message)
{
    return begin(udf, arguments, message);
}

void dballoc_malloc_trim_deinit(struct udf *udf)
{
    end(udf);
}

char *dballoc_malloc_trim(struct udf *udf, struct udf_arguments *arguments, char *result,
        unsigned long *length, char *is_null, char *error)
{
    (void)arguments, (void)result, (void)is_null, (void)error;
    struct text text;
    struct malloc_library library;
    const struct allocator *allocator = head(&text, udf->own, BUFFER, &library);
    const char *called = allocator != NULL ? allocator->trim(&library) : NULL;
    cache_forget();
    if (called != NULL)
        text_string(&text, "called", called);
    text_end(&text);
    *length = text.length;
    return udf->own;
}
/* NOLINTEND(readability-non-const-parameter) */
