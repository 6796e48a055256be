// glibc's malloc under another name, whose books can be made slow, and are counted: SLOW_INFO,
// milliseconds that malloc_info takes; SLOW_TRIM, a file without which malloc_trim does not end. It
// says that it has begun by making that file's name with
// ".begun" behind it.
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *old);
void *__libc_memalign(size_t alignment, size_t size);

atomic_int malloc_info_calls;

static void sleep_for(long milliseconds)
{
    const struct timespec time = {
            .tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

void *malloc(size_t size)
{
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return __libc_realloc(old, size);
}

void free(void *old)
{
    __libc_free(old);
}

int malloc_info(int options, FILE *stream)
{
    int (*real)(int, FILE *);
    void *found = dlsym(RTLD_NEXT, "malloc_info");
    memcpy(&real, &found, sizeof found);
    atomic_fetch_add(&malloc_info_calls, 1);
    const char *slow = getenv("SLOW_INFO");
    if (slow != NULL)
        sleep_for(strtol(slow, NULL, 10));
    return real(options, stream);
}

int malloc_trim(size_t pad)
{
    int (*real)(size_t);
    void *found = dlsym(RTLD_NEXT, "malloc_trim");
    memcpy(&real, &found, sizeof found);
    const char *slow = getenv("SLOW_TRIM");
    if (slow != NULL) {
        char begun[512];
        snprintf(begun, sizeof begun, "%s.begun", slow);
        const int file = open(begun, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (file >= 0)
            close(file);
        for (int i = 0; i < 6000 && access(slow, F_OK) != 0; i++)
            sleep_for(10);
    }
    return real(pad);
}
