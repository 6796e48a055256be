#include "book.h"

#include <stddef.h>

/* scudo has a malloc_info and a mallinfo of its own, as glibc has, so it is asked first. */
static const struct book *const books[] = {
        &book_jemalloc,
        &book_google,
        &book_gperftools,
        &book_mimalloc,
        &book_tbbmalloc,
        &book_scudo,
        &book_glibc,
        NULL,
};

const struct book *book_find(const struct owner *owner)
{
    const struct book *const *book = books;
    while (*book != NULL && !(*book)->here(owner))
        book++;
    return *book;
}
