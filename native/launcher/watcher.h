/* The process that removes the directory when nobody uses it any more. */
#ifndef DBALLOC_LAUNCHER_WATCHER_H
#define DBALLOC_LAUNCHER_WATCHER_H

#include <stdbool.h>

#include "directory.h"

/* Starts it: no child of this process, in a session of its own, with none of its open files; it
 * ends with the directory. False with errno. */
bool watcher_start(const struct directory *directory);

#endif
