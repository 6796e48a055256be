#include "remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"

/* Deeper than anything that is unpacked. */
enum { DEEPEST = 32 };

static const int open_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/* A stream of a directory's entries; the descriptor stays the caller's. */
static DIR *read_entries(int directory)
{
    const int again = openat(directory, ".", open_flags);
    if (again < 0)
        return NULL;
    DIR *entries = fdopendir(again);
    if (entries == NULL)
        close(again);
    return entries;
}

static bool is_self_or_parent(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Others may be removing too: what is gone already is removed.
 * NOLINTNEXTLINE(misc-no-recursion): DEEPEST bounds it */
static bool empty_directory(int directory, dev_t device, int depth)
{
    DIR *entries = depth < DEEPEST ? read_entries(directory) : NULL;
    if (entries == NULL)
        return false;
    bool all = true;
    const struct dirent *entry;
    while ((entry = readdir(entries)) != NULL) {
        const char *name = entry->d_name;
        if (is_self_or_parent(name) || (depth == 0 && strcmp(name, DIRECTORY_MARK) == 0) ||
                unlinkat(directory, name, 0) == 0 || errno == ENOENT)
            continue;
        const int inner = openat(directory, name, open_flags);
        if (inner < 0) {
            all = all && errno == ENOENT;
            continue;
        }
        struct stat status;
        if (fstat(inner, &status) != 0 || status.st_dev != device ||
                !empty_directory(inner, device, depth + 1) ||
                (unlinkat(directory, name, AT_REMOVEDIR) != 0 && errno != ENOENT))
            all = false;
        close(inner);
    }
    closedir(entries);
    return all;
}

bool remove_directory(int parent, const char *name, int own)
{
    struct stat status;
    if (fstat(own, &status) != 0 || !empty_directory(own, status.st_dev, 0))
        return false;
    /* Last: who is killed before leaves a directory that is still known as ours. */
    unlinkat(own, DIRECTORY_MARK, 0);
    return unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

static bool is_empty(int directory)
{
    DIR *entries = read_entries(directory);
    if (entries == NULL)
        return false;
    bool empty = true;
    const struct dirent *entry;
    while (empty && (entry = readdir(entries)) != NULL)
        empty = is_self_or_parent(entry->d_name);
    closedir(entries);
    return empty;
}

/* A launcher that makes one holds no lock for a moment, but then it is empty, and the launcher sees
 * that it is gone and makes another. */
static bool is_leftover(int directory, dev_t device)
{
    struct stat status;
    struct stat mark;
    if (fstat(directory, &status) != 0 || status.st_uid != geteuid() || status.st_dev != device ||
            (status.st_mode & 07777) != 0700 || flock(directory, LOCK_EX | LOCK_NB) != 0)
        return false;
    if (fstatat(directory, DIRECTORY_MARK, &mark, AT_SYMLINK_NOFOLLOW) == 0)
        return S_ISREG(mark.st_mode) && mark.st_uid == geteuid();
    return is_empty(directory);
}

void remove_leftovers(int parent)
{
    struct stat status;
    DIR *entries = fstat(parent, &status) == 0 ? read_entries(parent) : NULL;
    if (entries == NULL)
        return;
    const struct dirent *entry;
    while ((entry = readdir(entries)) != NULL) {
        if (!directory_is_name(entry->d_name))
            continue;
        const int directory = openat(parent, entry->d_name, open_flags);
        if (directory < 0)
            continue;
        if (is_leftover(directory, status.st_dev))
            remove_directory(parent, entry->d_name, directory);
        close(directory);
    }
    closedir(entries);
}
