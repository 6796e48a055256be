#include "book.h"

/* scudo has a malloc_info and a mallinfo of its own, as glibc has, so it is asked first. */
static const struct book *const books[] = {
        &book_jemalloc,
        &book_google,
        &book_gperftools,
        &book_mimalloc,
        &book_tbbmalloc,
        &book_scudo,
        &book_glibc,
};

const struct book *book_find(const struct owner *owner)
{
    for (size_t i = 0; i < sizeof books / sizeof *books; i++) {
        if (books[i]->here(owner))
            return books[i];
    }
    return NULL;
}
