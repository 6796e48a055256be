// A program whose probe is asked while it does what is hard on that: asked MODE PATH.
// With one word, _exit or quick_exit, it allocates and ends that way, with status 7.
//
// closes   closes all descriptors that it has not opened, as daemons do, again and again, and
// serves at the socket PATH with
//          those numbers: to every client "program"
// filtered the same where the kernel gives no thread a table of open files of its own
// loads    loads libraries by the 128 long names PATH/0 to PATH/127; then for every byte of its
// input it loads and unloads
//          another fifty times, and says "loaded"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, strerror(errno));           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { MOST = 256, CLOSINGS = 5, LOADED = 128 };

static void say(const char *line)
{
    printf("%s\n", line);
    fflush(stdout);
}

// As an old kernel does, or a container's filter.
static void filter(void)
{
    struct sock_filter rules[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 1, 0),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    };
    struct sock_fprog program = {.len = sizeof rules / sizeof *rules, .filter = rules};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void *allocate(void *argument)
{
    free(malloc(100));
    return argument;
}

// The probe's socket is there, so its thread has begun.
static void wait_for_probe(void)
{
    char path[256];
    const char *directory = strchr(getenv("DBALLOC_PROBE"), ':');
    snprintf(path, sizeof path, "%s/%d.sock", directory + 1, (int)getpid());
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, allocate, NULL) == 0 && pthread_join(thread, NULL) == 0);
    for (int i = 0; i < 3000 && access(path, F_OK) != 0; i++) {
        usleep(10000);
    }
    CHECK(access(path, F_OK) == 0);
    usleep(100000); // until it waits for its first client
}

static int numbers(int *open)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory != NULL);
    for (const struct dirent *entry = readdir(directory); entry != NULL && count < MOST;
            entry = readdir(directory)) {
        const int number = atoi(entry->d_name);
        if (number > STDERR_FILENO && number != dirfd(directory)) {
            open[count++] = number;
        }
    }
    closedir(directory);
    return count;
}

static void *serve(void *argument)
{
    const int listener = *(int *)argument;
    for (;;) {
        const int client = accept(listener, NULL, NULL);
        CHECK(client >= 0);
        CHECK(write(client, "program", 7) == 7);
        close(client);
    }
    return NULL;
}

static void close_all(const char *path)
{
    static int open[MOST];
    static int listener;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    wait_for_probe();
    const int first = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(first >= 0 && bind(first, (struct sockaddr *)&address, sizeof address) == 0 &&
            listen(first, 100) == 0);
    listener = dup2(first, 700);
    CHECK(listener == 700);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, serve, &listener) == 0);
    say("ready");
    char byte;
    for (int round = 0; read(STDIN_FILENO, &byte, 1) > 0; round++) {
        const int count = round < CLOSINGS ? numbers(open) : 0;
        for (int i = 0; i < count; i++) {
            if (open[i] != listener) {
                close(open[i]);
            }
        }
        for (int i = 0; i < count; i++) {
            int got;
            // Busy: that number is just being given to another thread's file (dup2(2)).
            while ((got = dup2(listener, open[i])) < 0 && errno == EBUSY) {
            }
            CHECK(got == open[i]);
        }
        say("closed");
    }
}

static void load(const char *path)
{
    char name[8192];
    for (int i = 0; i < LOADED; i++) {
        snprintf(name, sizeof name, "%s/%d", path, i);
        if (dlopen(name, RTLD_NOW) == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            exit(1);
        }
    }
    wait_for_probe();
    say("ready");
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
        for (int i = 0; i < 50; i++) {
            void *library = dlopen("libutil.so.1", RTLD_NOW); // none of those by its soname
            CHECK(library != NULL && dlclose(library) == 0);
        }
        say("loaded");
    }
}

static void end(const char *way)
{
    for (int i = 0; i < 1000; i++) {
        allocate(NULL);
    }
    if (strcmp(way, "quick_exit") == 0) {
        quick_exit(7);
    }
    _exit(7);
}

int main(int count, char **words)
{
    CHECK(count >= 2);
    if (count == 2) {
        end(words[1]);
    }
    CHECK(count == 3);
    if (strcmp(words[1], "filtered") == 0) {
        filter();
    }
    if (strcmp(words[1], "loads") == 0) {
        load(words[2]);
    } else {
        close_all(words[2]);
    }
    return 0;
}
