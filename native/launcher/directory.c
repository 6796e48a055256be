#include "directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "message.h"

enum { ATTEMPTS = 100 };

static const char digits[] = "0123456789abcdef";

/* Could somebody else exchange what is in a directory? `where`: "" or "a directory above ". Prints
 * so, and returns true. */
static bool is_exchangeable(
        const char *path, const char *where, const struct stat *status, uid_t root)
{
    /* Who owns the root directory may do anything; in a user namespace root has another number. */
    if (status->st_uid != 0 && status->st_uid != root && status->st_uid != geteuid()) {
        complain("%s%s belongs to another user, who could exchange what is unpacked there; set "
                 "TMPDIR to a directory of your own",
                where, path);
        return true;
    }
    if ((status->st_mode & (S_IWGRP | S_IWOTH)) != 0 && (status->st_mode & S_ISVTX) == 0) {
        complain("others may write to %s%s and it has no sticky bit, so that they could exchange "
                 "what is unpacked there; set TMPDIR to a directory of your own",
                where, path);
        return true;
    }
    return false;
}

/* Checks a directory and all above it: who may rename one of them may put another in its place. */
static bool check_ways(const struct directory *directory)
{
    const char *path = directory->parent_path;
    struct stat root;
    struct stat status;
    int at = fcntl(directory->parent, F_DUPFD_CLOEXEC, 0);
    bool is_right = at >= 0 && stat("/", &root) == 0 && fstat(at, &status) == 0;
    if (!is_right)
        complain("%s: %s; set TMPDIR to another directory", path, strerror(errno));
    const char *where = "";
    while (is_right && !is_exchangeable(path, where, &status, root.st_uid)) {
        if (status.st_dev == root.st_dev && status.st_ino == root.st_ino) {
            close(at);
            return true;
        }
        const int above = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = above;
        where = "a directory above ";
        is_right = at >= 0 && fstat(at, &status) == 0;
        if (!is_right)
            complain("%s%s: %s; set TMPDIR to another directory", where, path, strerror(errno));
    }
    if (at >= 0)
        close(at);
    return false;
}

static bool check_parent(const struct directory *directory)
{
    const char *path = directory->parent_path;
    struct statvfs file_system;
    if (!check_ways(directory))
        return false;
    if (fstatvfs(directory->parent, &file_system) != 0) {
        complain("%s: %s; set TMPDIR to another directory", path, strerror(errno));
        return false;
    }
    if ((file_system.f_flag & ST_NOEXEC) != 0) {
        complain("%s is mounted noexec, so that nothing can be started from it; set TMPDIR to a "
                 "directory of a file system that allows programs",
                path);
        return false;
    }
    return true;
}

bool directory_open_parent(struct directory *directory)
{
    const char *path = getenv("TMPDIR");
    if (path == NULL || *path == '\0')
        path = "/tmp";
    if (*path != '/') {
        complain("TMPDIR=%s is no absolute path; set it to one", path);
        return false;
    }
    const size_t room = sizeof directory->parent_path - sizeof directory->name - 1;
    const size_t length = strlen(path);
    if (length >= room) {
        complain("TMPDIR has more than %zu bytes; set it to a shorter path", room);
        return false;
    }
    /* Without links on the way, which somebody else might set anew. */
    char resolved[PATH_MAX];
    errno = 0;
    if (realpath(path, resolved) == NULL || strlen(resolved) >= room) {
        complain("%s: %s; set TMPDIR to another directory", path,
                strerror(errno != 0 ? errno : ENAMETOOLONG));
        return false;
    }
    memcpy(directory->parent_path, resolved, strlen(resolved) + 1);
    directory->parent = open(resolved, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory->parent < 0) {
        complain("%s: %s; set TMPDIR to another directory", path, strerror(errno));
        return false;
    }
    return check_parent(directory);
}

bool directory_is_name(const char *name)
{
    const size_t prefix = strlen(DIRECTORY_PREFIX);
    return strncmp(name, DIRECTORY_PREFIX, prefix) == 0 &&
           strlen(name) == prefix + DIRECTORY_DIGITS &&
           strspn(name + prefix, digits) == DIRECTORY_DIGITS;
}

/* A name that others cannot have waited for with a link or a directory of theirs. */
static bool choose_name(struct directory *directory)
{
    unsigned char random[DIRECTORY_DIGITS / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    char *at = stpcpy(directory->name, DIRECTORY_PREFIX);
    for (size_t i = 0; i < sizeof random; i++) {
        *at++ = digits[random[i] >> 4];
        *at++ = digits[random[i] & 15];
    }
    *at = '\0';
    return snprintf(directory->path, sizeof directory->path, "%s/%s", directory->parent_path,
                   directory->name) < (int)sizeof directory->path;
}

/* Opens and locks what was just made. False with errno: 0 if a remover of leftovers was faster. */
static bool lock(struct directory *directory)
{
    directory->own = openat(
            directory->parent, directory->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory->own < 0) {
        if (errno == ENOENT)
            errno = 0;
        return false;
    }
    struct stat status;
    if (flock(directory->own, LOCK_SH) != 0 || fstat(directory->own, &status) != 0) {
        const int error = errno;
        close(directory->own);
        errno = error;
        return false;
    }
    if (status.st_nlink == 0) {
        close(directory->own);
        errno = 0;
        return false;
    }
    const int mark = openat(directory->own, DIRECTORY_MARK,
            O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (mark >= 0) {
        close(mark);
        return true;
    }
    const int error = errno;
    close(directory->own);
    unlinkat(directory->parent, directory->name, AT_REMOVEDIR);
    errno = error;
    return false;
}

bool directory_make(struct directory *directory)
{
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        errno = 0;
        if (!choose_name(directory))
            break;
        if (mkdirat(directory->parent, directory->name, 0700) != 0) {
            if (errno == EEXIST)
                continue;
            break;
        }
        if (lock(directory))
            return true;
        if (errno != 0)
            break;
    }
    complain("cannot make a directory in %s: %s; set TMPDIR to another directory",
            directory->parent_path, errno != 0 ? strerror(errno) : "its names are taken");
    return false;
}
