/* One allocator's books: how it is known, what it says of itself, how it is asked to give memory back.
 *
 * An allocator is a file book_NAME.c and an entry of the table in books.c.
 */
#ifndef DBALLOC_UDF_BOOK_H
#define DBALLOC_UDF_BOOK_H

#include "owner.h"
#include "text.h"

struct book {
    const char *name;
    /* Whether the malloc in use is this one. */
    bool (*here)(const struct owner *owner);
    /* Its figures, as fields of the object that `text` is in. */
    void (*tell)(const struct owner *owner, struct text *text);
    /* Have it give back to the kernel what it holds free. What was called, in words; NULL if it cannot be asked. */
    const char *(*trim)(const struct owner *owner);
};

/* The book of the malloc in use; NULL if it is none that we know. */
const struct book *book_find(const struct owner *owner);

extern const struct book book_glibc, book_google, book_gperftools, book_jemalloc, book_mimalloc, book_scudo,
        book_tbbmalloc;

#endif
