/* dballoc in one file: unpacks an interpreter with dballoc into a fresh directory, runs it as this
 * process, and leaves a watcher behind that removes the directory.
 *
 *     dballoc-portable [ARGUMENT]...
 *     dballoc-portable --unpack-to DIR     to stay: then it is DIR/bin/dballoc
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"
#include "environment.h"
#include "message.h"
#include "remove.h"
#include "unpack.h"
#include "watcher.h"

enum { LONGEST_INTERPRETER = 32 };

/* -I: neither PYTHON… nor the current directory nor a user's packages. -B: what was compiled is
 * there. */
static const char *const before_arguments[] = {"-I", "-B", "-m", "dballoc"};
enum { BEFORE = sizeof before_arguments / sizeof *before_arguments };

/* Descriptors 0 to 2 are taken, if only until the interpreter starts: no file of ours becomes one. */
static void take_standard_streams(void)
{
    int descriptor;
    do {
        descriptor = open("/dev/null", O_RDWR | O_CLOEXEC);
    } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    if (descriptor >= 0)
        close(descriptor);
}

/* Becomes the interpreter; returns if that fails. */
static void run(const char *directory, int count, char **arguments)
{
    char interpreter[PATH_MAX + LONGEST_INTERPRETER];
    snprintf(interpreter, sizeof interpreter, "%s/bin/python3", directory);
    const char **words = calloc((size_t)count + BEFORE + 2, sizeof *words);
    if (words == NULL || !environment_prepare(directory)) {
        complain("there is no memory to start with");
        free(words);
        return;
    }
    words[0] = interpreter;
    memcpy(words + 1, before_arguments, sizeof before_arguments);
    for (int i = 1; i < count; i++)
        words[BEFORE + i] = arguments[i];
    union {
        const char **ours;
        char *const *execs;
    } vector = {.ours = words};
    execv(interpreter, vector.execs);
    complain("%s: %s; set TMPDIR to a directory that programs may be started from", interpreter,
            strerror(errno));
    free(words);
}

/* For a place that the user names, and that stays. */
static int unpack_to(const char *path)
{
    if (mkdir(path, 0755) != 0) {
        complain("--unpack-to %s: %s; name a directory that is not there yet", path,
                strerror(errno));
        return EXIT_REFUSED;
    }
    const int own = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (own < 0) {
        complain("--unpack-to %s: %s", path, strerror(errno));
        return 1;
    }
    if (!unpack(own, path)) {
        remove_directory(AT_FDCWD, path, own);
        return 1;
    }
    printf("unpacked; run: %s/bin/dballoc\n", path);
    return 0;
}

int main(int count, char **arguments)
{
    static struct directory directory;
    take_standard_streams();
    const mode_t users_mask = umask(022);
    if (count > 1 && strcmp(arguments[1], "--unpack-to") == 0) {
        if (count == 3)
            return unpack_to(arguments[2]);
        complain("--unpack-to takes one directory, and nothing else");
        return EXIT_REFUSED;
    }
    umask(077);
    if (!directory_open_parent(&directory))
        return EXIT_REFUSED;
    remove_leftovers(directory.parent);
    if (!directory_make(&directory))
        return EXIT_REFUSED;
    /* Before anything is unpacked: whatever happens to us from here on, it cleans up. */
    if (!watcher_start(&directory)) {
        complain("cannot start a process that removes %s later: %s", directory.path,
                strerror(errno));
        remove_directory(directory.parent, directory.name, directory.own);
        return EXIT_REFUSED;
    }
    if (!unpack(directory.own, directory.path))
        return EXIT_REFUSED;
    umask(users_mask);
    /* The lock goes with it. */
    if (fcntl(directory.own, F_SETFD, 0) == 0)
        run(directory.path, count, arguments);
    return EXIT_REFUSED;
}
