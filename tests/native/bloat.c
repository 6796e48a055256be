// Huge pages of which only some small pages are ever written. `bloat N`: N of 512. Prints "ready"
// and waits until standard input ends.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE = 2 << 20, PAGE = 4096, COUNT = 48 };

int main(int count, char **words)
{
    int written = count > 1 ? atoi(words[1]) : 1;
    char *block = aligned_alloc(HUGE, (size_t)COUNT * HUGE);
    if (!block || madvise(block, (size_t)COUNT * HUGE, MADV_HUGEPAGE) != 0) {
        return 1;
    }
    for (int i = 0; i < COUNT; i++) {
        for (int page = 0; page < written; page++) {
            block[(size_t)i * HUGE + (size_t)page * PAGE] = 1;
        }
    }
    // What explain knows a malloc by: bound only when it is called, so before anyone looks.
    char *small = malloc(100);
    if (!small) {
        return 1;
    }
    *(volatile char *)small = 1;
    free(small);
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
}
