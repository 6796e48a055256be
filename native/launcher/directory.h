/* The fresh directory that everything is unpacked into, and its lock.
 *
 * It lies in $TMPDIR, else /tmp, has mode 0700 and a name that nobody can guess. The descriptor of
 * the directory itself carries a shared flock(2), which the interpreter inherits: as long as it
 * lives the directory is in use, whatever killed the launcher, and afterwards it is a leftover. */
#ifndef DBALLOC_LAUNCHER_DIRECTORY_H
#define DBALLOC_LAUNCHER_DIRECTORY_H

#include <limits.h>
#include <stdbool.h>

#define DIRECTORY_PREFIX "dballoc-portable-"
/* Made before all else: a directory without it that is not empty is somebody else's. */
#define DIRECTORY_MARK ".unpacked-by-dballoc-portable"
enum { DIRECTORY_DIGITS = 16 };

struct directory {
    int parent;          /* descriptors of directories */
    int own;             /* with the lock */
    char name[64];       /* in its parent */
    char path[PATH_MAX]; /* of the directory */
    char parent_path[PATH_MAX];
};

/* Opens the parent, and checks that nobody else can rename what is in it, or a directory above it, and
 * that programs may be started from it. Prints what is wrong, and returns false. */
bool directory_open_parent(struct directory *directory);

/* Makes the directory, locked, with its mark. Prints what is wrong, and returns false. */
bool directory_make(struct directory *directory);

/* Is this the name of a directory that directory_make may have made? */
bool directory_is_name(const char *name);

#endif
