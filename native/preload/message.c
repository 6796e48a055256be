#include "message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "descriptors.h"
#include "preload.h"

static struct iovec text(const char *words)
{
    /* writev(2) takes what it only reads as if it wrote there. */
    union {
        const char *read;
        void *base;
    } bytes = {.read = words};
    return (struct iovec){.iov_base = bytes.base, .iov_len = strlen(words)};
}

void message_write(const char *why, const char *what_to_do)
{
    const int error = errno;
    const struct iovec line[] = {
            text(preload_name), text(": "), text(why), text("; "), text(what_to_do), text("\n")};
    struct descriptor standard_error;
    if (descriptor_of_standard_error(&standard_error)) {
        /* In one piece, and by a raw call: the function is a cancellation point, and malloc, in
         * which this may be, is none. If nobody listens there is nobody else to tell. */
        if (syscall(SYS_writev, standard_error.number, line, sizeof line / sizeof *line) < 0)
            errno = 0;
        descriptor_of_standard_error_end(&standard_error);
    }
    errno = error;
}

void message_abort(const char *why, const char *what_to_do)
{
    message_write(why, what_to_do);
    abort();
}
