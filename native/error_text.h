/* An errno in English, without a lock and without allocating, unlike strerror(3). */
#ifndef DBALLOC_ERROR_TEXT_H
#define DBALLOC_ERROR_TEXT_H

#include <errno.h>
#include <string.h>

/* glibc has had it since 2.32. Weak: with an older one it is not there, and what is built against
 * an older one finds it in a newer. */
#if !__GLIBC_PREREQ(2, 32)
extern const char *strerrordesc_np(int);
#endif
#pragma weak strerrordesc_np

static inline const char *error_text(int error)
{
    if (strerrordesc_np != NULL) {
        const char *text = strerrordesc_np(error);
        return text != NULL ? text : "unknown error";
    }
    switch (error) {
    case EACCES:
        return "Permission denied";
    case EADDRINUSE:
        return "Address already in use";
    case EDQUOT:
        return "Disk quota exceeded";
    case EEXIST:
        return "File exists";
    case EFBIG:
        return "File too large";
    case EIO:
        return "Input/output error";
    case EMFILE:
        return "Too many open files";
    case ENOENT:
        return "No such file or directory";
    case ENOMEM:
        return "Cannot allocate memory";
    case ENOSPC:
        return "No space left on device";
    case ENOTDIR:
        return "Not a directory";
    case EPERM:
        return "Operation not permitted";
    case EROFS:
        return "Read-only file system";
    default:
        return "see its errno";
    }
}

#endif
