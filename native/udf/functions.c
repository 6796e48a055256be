/* dballoc_malloc_stats() and dballoc_malloc_trim(): loadable functions of a server, in which its own malloc speaks.
 *
 *     CREATE FUNCTION dballoc_malloc_stats RETURNS STRING SONAME 'dballoc_udf.so'
 *
 * Both return JSON: "format", "malloc" (the file), "allocator" (its name; null if it is none that we know), and then what
 * book_NAME.c says, or what was called. Each use in a statement has a buffer of its own, so they can be called by many
 * connections at a time; the buffer is mapped, and does not lie in the heap that is being told of.
 */
#include "abi.h"
#include "book.h"

#include <stdio.h>
#include <sys/mman.h>

/* Below the smallest max_allowed_packet that is usual, 1 MiB. */
enum { BUFFER = 960 * 1024, FORMAT = 1 };

UDF_EXPORT bool dballoc_malloc_stats_init(struct udf *udf, struct udf_arguments *arguments, char *message);
UDF_EXPORT void dballoc_malloc_stats_deinit(struct udf *udf);
UDF_EXPORT char *dballoc_malloc_stats(struct udf *udf, struct udf_arguments *arguments, char *result,
        unsigned long *length, char *is_null, char *error);
UDF_EXPORT bool dballoc_malloc_trim_init(struct udf *udf, struct udf_arguments *arguments, char *message);
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
    udf->maybe_null = false;
    udf->constant = false;
    return false;
}

static void end(struct udf *udf)
{
    if (udf->own != NULL)
        (void)munmap(udf->own, BUFFER);
    udf->own = NULL;
}

/* The head of both texts; the malloc's book, NULL if it is unknown. */
static const struct book *head(struct text *text, struct udf *udf, struct owner *owner)
{
    const struct book *book = NULL;
    text_begin(text, udf->own, BUFFER);
    text_number(text, "format", FORMAT);
    if (owner_find(owner)) {
        text_string(text, "malloc", owner->path);
        book = book_find(owner);
    }
    if (book != NULL)
        text_string(text, "allocator", book->name);
    return book;
}

static char *tail(struct text *text, struct udf *udf, unsigned long *length)
{
    text_end(text);
    *length = text->length;
    return udf->own;
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
char *dballoc_malloc_stats(struct udf *udf, struct udf_arguments *arguments, char *result, unsigned long *length,
        char *is_null, char *error)
{
    (void)arguments, (void)result, (void)is_null, (void)error;
    struct text text;
    struct owner owner;
    const struct book *book = head(&text, udf, &owner);
    if (book != NULL)
        book->tell(&owner, &text);
    return tail(&text, udf, length);
}

bool dballoc_malloc_trim_init(struct udf *udf, struct udf_arguments *arguments, char *message)
{
    return begin(udf, arguments, message);
}

void dballoc_malloc_trim_deinit(struct udf *udf)
{
    end(udf);
}

char *dballoc_malloc_trim(struct udf *udf, struct udf_arguments *arguments, char *result, unsigned long *length,
        char *is_null, char *error)
{
    (void)arguments, (void)result, (void)is_null, (void)error;
    struct text text;
    struct owner owner;
    const struct book *book = head(&text, udf, &owner);
    const char *called = book != NULL ? book->trim(&owner) : NULL;
    if (called != NULL)
        text_string(&text, "called", called);
    return tail(&text, udf, length);
}
/* NOLINTEND(readability-non-const-parameter) */
