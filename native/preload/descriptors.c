#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Whether this thread has a table of open files of its own. */
static _Thread_local bool apart __attribute__((tls_model("initial-exec")));

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif

/* Where our descriptors are in a table that is also the program's: above those that a loop
 * from 3 to 1023 closes, and low enough that the kernel's table grows only a little. */
enum { HIGHEST = 4096, ROOM = 64 };

static bool close_from(unsigned first, unsigned flags)
{
    return syscall(SYS_close_range, first, UINT_MAX, flags) == 0;
}

/* unshare(2) alone is not enough: the copies of all the program's files would have to be closed one
 * by one, and until then a file that the program closes would stay open. */
void descriptors_begin(void)
{
    apart = close_from(STDERR_FILENO + 1, CLOSE_RANGE_UNSHARE);
}

bool descriptors_are_apart(void)
{
    return apart;
}

void descriptors_settle(void)
{
    /* The reader of a pipe must see its end when the program closes it. */
    for (int number = STDIN_FILENO; apart && number <= STDERR_FILENO; number++)
        (void)close(number);
}

/* -1 with errno if there is no room up there. */
static int moved_high(int number)
{
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur < (rlim_t)4 * ROOM)
        return -1;
    const int least = (most.rlim_cur < HIGHEST ? (int)most.rlim_cur : HIGHEST) - ROOM;
    return fcntl(number, F_DUPFD_CLOEXEC, least);
}

bool descriptor_take(struct descriptor *descriptor, int number)
{
    *descriptor = (struct descriptor){.number = -1};
    if (number < 0)
        return false;
    int kept = number;
    /* In a table of its own any number will do but the standard ones: others may write to those. */
    const int higher =
            apart ? (number > STDERR_FILENO ? -1
                                            : fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1))
                  : moved_high(number);
    if (higher >= 0) {
        kept = higher;
        (void)close(number);
    }
    struct stat file;
    if (fstat(kept, &file) != 0) {
        const int error = errno;
        (void)close(kept);
        errno = error;
        return false;
    }
    *descriptor = (struct descriptor){.number = kept, .device = file.st_dev, .inode = file.st_ino};
    return true;
}

bool descriptor_is_ours(const struct descriptor *descriptor)
{
    struct stat file;
    return descriptor->number >= 0 && fstat(descriptor->number, &file) == 0 &&
           file.st_dev == descriptor->device && file.st_ino == descriptor->inode;
}

void descriptor_close(struct descriptor *descriptor)
{
    if (descriptor_is_ours(descriptor))
        (void)close(descriptor->number);
    descriptor->number = -1;
}

bool descriptor_of_standard_error(struct descriptor *descriptor)
{
    *descriptor = (struct descriptor){.number = STDERR_FILENO};
    if (!apart)
        return true;
    /* From the program's table: its first thread's. */
    const int process = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (process < 0)
        return false;
    descriptor->number = (int)syscall(SYS_pidfd_getfd, process, STDERR_FILENO, 0);
    (void)close(process);
    return descriptor->number >= 0;
}

void descriptor_of_standard_error_end(struct descriptor *descriptor)
{
    if (apart)
        (void)close(descriptor->number);
}
