/* What is unpacked: a tar archive compressed by zstd, in the launcher's own file (payload.S). */
#ifndef DBALLOC_LAUNCHER_UNPACK_H
#define DBALLOC_LAUNCHER_UNPACK_H

#include <stdbool.h>

/* Unpacks into an open directory, whose path is for messages. Modes are those of the archive, less
 * the umask. Prints what is wrong, and returns false. */
bool unpack(int directory, const char *path);

#endif
