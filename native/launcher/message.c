#include "message.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void complain(const char *format, ...)
{
    char line[4096];
    va_list values;
    va_start(values, format);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it was begun in the line before
    int length = vsnprintf(line, sizeof line - 1, format, values);
    va_end(values);
    if (length < 0)
        return;
    if ((size_t)length > sizeof line - 2)
        length = sizeof line - 2;
    /* A path may hold a newline or an escape: a message is one line of a terminal all the same. */
    for (int at = 0; at < length; at++) {
        if ((unsigned char)line[at] < 0x20 || line[at] == 0x7f)
            line[at] = '?';
    }
    dprintf(STDERR_FILENO, "dballoc: %s\n", line);
}
