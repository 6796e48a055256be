#include "memory.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "preload.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

void *memory_map(size_t size)
{
    void *memory = mmap(
            NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    /* Both are optional, and an older kernel may refuse them. No huge pages: one would turn a few
     * touched bytes into 2 MiB. The name in /proc/PID/maps shows whose memory this is. */
    (void)madvise(memory, size, MADV_NOHUGEPAGE);
    (void)prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, memory, size, preload_name);
    return memory;
}

size_t memory_page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}
