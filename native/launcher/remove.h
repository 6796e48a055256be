/* Removing what was unpacked, and what earlier launchers left that were killed. */
#ifndef DBALLOC_LAUNCHER_REMOVE_H
#define DBALLOC_LAUNCHER_REMOVE_H

#include <stdbool.h>

/* Removes a directory with all that is in it, without following a link or entering another file
 * system. `own` is a descriptor of the directory, `name` its name in `parent`. */
bool remove_directory(int parent, const char *name, int own);

/* Removes what is in `parent`, has a name of ours, belongs to this user alone, has our mark, and is
 * locked by nobody. What cannot be removed stays: it is in nobody's way. */
void remove_leftovers(int parent);

#endif
