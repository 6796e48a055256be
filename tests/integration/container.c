// Runs a program as a container does: in PID and mount namespaces of its own, with another root,
// and, if a user is given, in a user namespace where that user is root. A test's own; the parent
// stays until the program ends.
//
//   container pivot|chroot ROOT USER|- PROGRAM [ARGUMENT]...
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(long result, const char *what)
{
    if (result < 0) {
        perror(what);
        exit(125);
    }
}

static void enter(const char *mode, const char *root)
{
    check(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
    check(mount(root, root, NULL, MS_BIND | MS_REC, NULL), "bind the root");
    check(chdir(root), root);
    check(mount("proc", "proc", "proc", 0, NULL), "proc");
    check(mount("/dev", "dev", NULL, MS_BIND | MS_REC, NULL), "dev");
    if (strcmp(mode, "pivot") == 0) {
        check(syscall(SYS_pivot_root, ".", "."), "pivot_root");
        check(umount2(".", MNT_DETACH), "detach the old root");
    } else {
        check(chroot("."), "chroot");
    }
    check(chdir("/"), "/");
}

static void map(int proc, pid_t pid, const char *file, const char *user)
{
    char path[64], line[64];
    snprintf(path, sizeof path, "%d/%s", (int)pid, file);
    int length = snprintf(line, sizeof line, "0 %s 1\n", user);
    int out = openat(proc, path, O_WRONLY);
    check(out, path);
    check(write(out, line, (size_t)length), path);
    close(out);
}

int main(int count, char **words)
{
    if (count < 5)
        return 125;
    const char *user = strcmp(words[3], "-") == 0 ? NULL : words[3];
    int up[2], down[2];
    char byte = 0;
    check(pipe2(up, O_CLOEXEC), "pipe");
    check(pipe2(down, O_CLOEXEC), "pipe");
    // The root changes under us too.
    int proc = open("/proc", O_DIRECTORY | O_CLOEXEC);
    check(proc, "/proc");
    check(unshare(CLONE_NEWNS | CLONE_NEWPID), "unshare");
    pid_t pid = fork();
    check(pid, "fork");
    if (pid == 0) {
        check(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");
        enter(words[1], words[2]);
        if (user) {
            check(unshare(CLONE_NEWUSER), "user namespace");
            check(write(up[1], &byte, 1), "pipe");
            check(read(down[0], &byte, 1), "pipe");
            check(setresgid(0, 0, 0), "setresgid");
            check(setresuid(0, 0, 0), "setresuid");
        }
        execv(words[4], words + 4);
        perror(words[4]);
        _exit(127);
    }
    if (user) {
        check(read(up[0], &byte, 1), "pipe");
        map(proc, pid, "uid_map", user);
        map(proc, pid, "gid_map", user);
        check(write(down[1], &byte, 1), "pipe");
    }
    int status = 0;
    check(waitpid(pid, &status, 0), "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
