/* The check of a replay's plan: whatever the file holds, it is refused in one line or every number
 * in it is one that the engine can use. What the check needs of the rest is below: a refusal is a
 * jump, and its memory is given back behind it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../native/replay/memory.h"
#include "../../../native/replay/options.h"
#include "../../../native/replay/plan.h"
#include "../../../native/replay/report.h"

enum { MOST_MAPPED = 64 };

struct options options = {.threads = 1000, .live_bytes = 1 << 30, .seconds = 60};

static jmp_buf refused;
static void *mapped[MOST_MAPPED];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

_Noreturn void refuse(const char *format, ...)
{
    char line[2048];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    if (length <= 0 || strchr(line, '\n'))
        abort();
    longjmp(refused, 1);
}

_Noreturn void fail(int error, const char *format, ...)
{
    (void)error;
    (void)format;
    longjmp(refused, 1);
}

void *memory_map(size_t count, size_t size)
{
    size_t bytes = 0;
    /* Far more than a plan of the sizes that are tried needs. */
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > 64 << 20)
        refuse("more than there is");
    for (int i = 0; i < MOST_MAPPED; i++)
        if (!mapped[i])
            return mapped[i] = calloc(1, bytes ? bytes : 1);
    abort();
}

void *memory_map_present(size_t count, size_t size)
{
    return memory_map(count, size);
}

void memory_unmap(void *memory, size_t count, size_t size)
{
    (void)count;
    (void)size;
    for (int i = 0; i < MOST_MAPPED; i++)
        if (mapped[i] == memory)
            mapped[i] = NULL;
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* As a mapped file: its sections are aligned. */
    uint64_t *file = malloc(size + sizeof *file);
    if (!file)
        return 0;
    memcpy(file, data, size);
    if (setjmp(refused) == 0 && size >= sizeof(struct plan_header)) {
        /* The length and the magic are what a fuzzer would spend its time on. */
        struct plan_header *header = (struct plan_header *)file;
        memcpy(header->magic, PLAN_MAGIC, sizeof header->magic);
        header->version = PLAN_VERSION;
        header->bytes = size;
        plan_check(file, size);
        plan_check_limits();
    }
    for (int i = 0; i < MOST_MAPPED; i++) {
        free(mapped[i]);
        mapped[i] = NULL;
    }
    free(file);
    return 0;
}
