#include "watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "remove.h"

enum { FIRST_FREE = 2, MOST_DESCRIPTORS = 1 << 16, ATTEMPTS = 20, PAUSE_NS = 100000000 };

/* All from this one on: who waits for the end of a pipe must not wait for us. */
static void close_from(int first)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned)first, ~0u, 0) == 0)
        return;
#endif
    struct rlimit limit;
    int most = MOST_DESCRIPTORS;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (rlim_t)most)
        most = (int)limit.rlim_cur;
    for (int descriptor = first; descriptor < most; descriptor++)
        close(descriptor);
}

static void ignore_signals(void)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2,
            SIGALRM, SIGTSTP, SIGTTIN, SIGTTOU};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &ignore, NULL);
}

__attribute__((noreturn)) static void watch(const struct directory *directory)
{
    ignore_signals();
    /* Opened anew: a lock belongs to the opening, and that of the launcher's is shared by all that
     * use the directory. */
    const int again = openat(directory->own, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (again < 0 || dup2(directory->parent, 0) != 0 || dup2(again, 1) != 1 || chdir("/") != 0)
        _exit(1);
    close_from(FIRST_FREE);
    while (flock(1, LOCK_EX) != 0) {
        if (errno != EINTR)
            _exit(1);
    }
    /* Somebody may still be writing who was started from there, and holds no lock. */
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (remove_directory(0, directory->name, 1))
            _exit(0);
        nanosleep(&pause, NULL);
    }
    _exit(1);
}

bool watcher_start(const struct directory *directory)
{
    /* Where whoever started us ignores the end of children, nobody can wait for one: neither we here
     * nor the interpreter later. */
    const struct sigaction notice = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &notice, NULL);
    const pid_t between = fork();
    if (between < 0)
        return false;
    if (between == 0) {
        setsid();
        const pid_t watcher = fork();
        if (watcher == 0)
            watch(directory);
        _exit(watcher < 0 ? errno : 0);
    }
    int status = 0;
    while (waitpid(between, &status, 0) < 0) {
        if (errno != EINTR)
            return false;
    }
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN;
    return errno == 0;
}
