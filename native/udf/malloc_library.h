/* Whose malloc the process uses, and what else that library exports. All at run time: nothing is
 * linked against. */
#ifndef DBALLOC_UDF_MALLOC_LIBRARY_H
#define DBALLOC_UDF_MALLOC_LIBRARY_H

#include <stdbool.h>

struct malloc_library {
    const void *base; /* where the object that malloc leads to is mapped */
    const char *path; /* as the loader knows it */
};

/* False if no malloc is found, or it belongs to no object. */
bool find_malloc_library(struct malloc_library *library);

/* Store the address of a symbol into the function pointer that `function` points at; false if there
 * is none.
 *
 * malloc_library_symbol: the library of this malloc itself must define it. A preloaded malloc may
 * leave out what libc has (mallinfo2, malloc_info), and libc's would answer for a heap that nobody
 * uses.
 */
bool malloc_library_symbol(const struct malloc_library *library, const char *name, void *function);
bool any_symbol(const char *name, void *function);

#endif
