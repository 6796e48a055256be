// A library that makes a server misbehave, in the way that DBT_FAULT names. Inert in `--version`,
// which is asked before anything is started; only a server on a data directory is struck. "Under
// load" is seen by the sockets that it has.

#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *fault = "";

static int sockets(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[300], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, target, sizeof target - 1) > 0 && strncmp(target, "socket:", 7) == 0)
            count++;
    }
    if (dir)
        closedir(dir);
    return count;
}

static void *strike_under_load(void *unused)
{
    (void)unused;
    // The listening socket, dballoc's own connection, and the two clients.
    while (sockets() < 4)
        usleep(10000);
    usleep(strcmp(fault, "kill late") ? 300000 : 2500000);
    if (!strcmp(fault, "segv"))
        *(volatile int *)0 = 1;
    if (!strncmp(fault, "kill", 4))
        kill(getpid(), SIGKILL);
    if (!strcmp(fault, "eat"))
        for (size_t size = 16 << 20;;) {
            char *area =
                    mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (area != MAP_FAILED)
                memset(area, 1, size);
            usleep(40000); /* slow enough for the sampler to see it coming */
        }
    return NULL;
}

__attribute__((constructor)) static void start(int argc, char **argv)
{
    const char *wanted = getenv("DBT_FAULT");
    int serves = 0;
    for (int i = 1; i < argc; i++)
        serves |= !strncmp(argv[i], "--datadir=", 10);
    if (!wanted || !serves)
        return;
    fault = wanted;
    if (!strcmp(fault, "abort"))
        abort();
    if (!strcmp(fault, "hang"))
        for (;;)
            pause();
    if (!strcmp(fault, "complain"))
        fprintf(stderr, "ERROR: ld.so: object 'libx.so' from LD_PRELOAD cannot be preloaded (as a "
                        "test): ignored.\n");
    if (!strcmp(fault, "another setting"))
        fprintf(stderr, "  opt.narenas: 9\n");
    pthread_t thread;
    if (!strcmp(fault, "segv") || !strncmp(fault, "kill", 4) || !strcmp(fault, "eat"))
        pthread_create(&thread, NULL, strike_under_load, NULL);
}

__attribute__((destructor)) static void end(void)
{
    if (!strcmp(fault, "bad end"))
        _exit(3);
    if (!strcmp(fault, "no end"))
        for (;;)
            pause();
}
