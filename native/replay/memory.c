#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "report.h"

/* Of more than this, a replay may use little. Its pages come when they are used. */
#define MOST_PRESENT ((size_t)64 << 20)

static int statm = -1;
static int rollup = -1;

static void *map(size_t count, size_t size, int more)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes))
        refuse("the plan needs more memory than there are addresses");
    if (bytes == 0)
        bytes = 1;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | more, -1, 0);
    if (memory == MAP_FAILED)
        fail(errno, "cannot map %zu bytes", bytes);
    return memory;
}

void *memory_map(size_t count, size_t size)
{
    return map(count, size, 0);
}

void *memory_map_present(size_t count, size_t size)
{
    /* A product that overflows is refused by map(). */
    return map(count, size, count * size <= MOST_PRESENT ? MAP_POPULATE : 0);
}

void memory_unmap(void *memory, size_t count, size_t size)
{
    size_t bytes = count * size;
    if (munmap(memory, bytes ? bytes : 1) != 0)
        fail(errno, "cannot unmap %zu bytes", bytes);
}

void memory_open_counters(void)
{
    statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (statm < 0)
        fail(errno, "cannot open /proc/self/statm");
    rollup = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    if (rollup < 0 && errno != ENOENT && errno != EACCES && errno != EPERM)
        fail(errno, "cannot open /proc/self/smaps_rollup");
}

/* The file from its beginning, as a text; its length, 0 if it cannot be read. */
static size_t read_text(int file, char *text, size_t room)
{
    ssize_t length = 0;
    do {
        length = pread(file, text, room - 1, 0);
    } while (length < 0 && errno == EINTR);
    text[length > 0 ? length : 0] = '\0';
    return length > 0 ? (size_t)length : 0;
}

uint64_t memory_read_anonymous(void)
{
    char text[256];
    char *at = text;
    if (read_text(statm, text, sizeof text) == 0)
        fail(errno, "cannot read /proc/self/statm");
    (void)strtoull(at, &at, 10);
    uint64_t resident = strtoull(at, &at, 10);
    uint64_t shared = strtoull(at, &at, 10);
    return resident > shared ? (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

uint64_t memory_read_anonymous_exactly(void)
{
    char text[2048];
    if (rollup < 0 || read_text(rollup, text, sizeof text) == 0)
        return memory_read_anonymous();
    const char *line = strstr(text, "\nAnonymous:");
    return line ? strtoull(line + strlen("\nAnonymous:"), NULL, 10) * 1024
                : memory_read_anonymous();
}
