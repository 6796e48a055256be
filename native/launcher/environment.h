/* The environment of the interpreter: nothing of the user's that the loader would obey. */
#ifndef DBALLOC_LAUNCHER_ENVIRONMENT_H
#define DBALLOC_LAUNCHER_ENVIRONMENT_H

#include <stdbool.h>

/* Sets DBALLOC_PORTABLE to the directory, and renames each LD_… to DBALLOC_PORTABLE_LD_…;
 * src/dballoc/host/portable.py gives them their names back, for the programs that dballoc starts.
 * False if there is no memory. */
bool environment_prepare(const char *directory);

#endif
