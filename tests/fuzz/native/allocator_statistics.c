// What an allocator says of itself, in the words of a hostile one: native/udf/allocator_*.c.
#include "../../../native/udf/allocator.h"

#include "json.h"

#include <stdarg.h>
#include <stdio.h>

static const uint8_t *at;
static size_t left;

static uint64_t number(void)
{
    uint64_t value = 0;
    const size_t size = left < sizeof value ? left : sizeof value;
    memcpy(&value, at, size);
    at += size;
    left -= size;
    return value;
}

// Some bytes as a string.
static const char *string(void)
{
    static char words[1 << 16];
    size_t length = (size_t)(number() & 0xffff);
    length = length < left ? length : left;
    length = length < sizeof words ? length : sizeof words - 1;
    memcpy(words, at, length);
    words[length] = '\0';
    at += length;
    left -= length;
    return words;
}

static int mallctl(const char *name, void *old, size_t *old_size, void *new, size_t new_size)
{
    (void)new, (void)new_size;
    if (old == NULL) {
        return 0;
    }
    if (strcmp(name, "version") == 0) {
        const char *version = string();
        memcpy(old, &version, sizeof version);
        return left == 0 ? 1 : 0;
    }
    const uint64_t value = number();
    if (left == 0 || *old_size > sizeof value || value % 7 == 0) {
        return 1;
    }
    memcpy(old, &value, *old_size);
    return 0;
}

static bool google_property(const char *name, size_t length, size_t *value)
{
    (void)name, (void)length;
    *value = number();
    return *value % 3 != 0;
}

static int gperftools_property(const char *name, size_t *value)
{
    return google_property(name, 0, value);
}

// A report that fills its buffer, without an end.
static void gperftools_report(char *buffer, int size)
{
    const char *words = string();
    memcpy(buffer, words, strnlen(words, (size_t)size));
}

static int version(void)
{
    return (int)number();
}

static void process(size_t *elapsed, size_t *user, size_t *system, size_t *rss, size_t *peak_rss,
        size_t *commit, size_t *peak_commit, size_t *faults)
{
    size_t *const all[] = {elapsed, user, system, rss, peak_rss, commit, peak_commit, faults};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i] = number();
    }
}

static char *statistics(size_t size, char *buffer)
{
    (void)size, (void)buffer;
    return left % 2 ? strdup(string()) : NULL;
}

static void print(void (*output)(const char *, void *), void *argument)
{
    while (left > 0) {
        output(string(), argument);
    }
}

struct info {
    size_t figures[10];
};

static struct info mallinfo2(void)
{
    struct info info;
    for (int i = 0; i < 10; i++) {
        info.figures[i] = number();
    }
    return info;
}

struct narrow {
    int figures[10];
};

static struct narrow mallinfo(void)
{
    struct narrow info;
    for (int i = 0; i < 10; i++) {
        info.figures[i] = (int)number();
    }
    return info;
}

static int malloc_info(int options, FILE *stream)
{
    (void)options;
    while (left > 0) {
        const size_t length = strlen(string());
        fwrite(at - length, 1, length, stream);
        if (number() % 8 == 0) {
            fflush(stream);
        }
    }
    return 0;
}

static void nothing(void)
{
}

static const struct {
    const char *name;
    void (*function)(void);
} functions[] = {
#define FUNCTION(symbol, function)                                                                 \
    {                                                                                              \
        symbol, (void (*)(void))(function)                                                         \
    }
        FUNCTION("mallctl", mallctl),
        FUNCTION("MallocExtension_Internal_GetNumericProperty", google_property),
        FUNCTION("MallocExtension_GetNumericProperty", gperftools_property),
        FUNCTION("MallocExtension_GetStats", gperftools_report),
        FUNCTION("mi_version", version),
        FUNCTION("mi_process_info", process),
        FUNCTION("mi_stats_get_json", statistics),
        FUNCTION("mi_stats_print_out", print),
        FUNCTION("mallinfo2", mallinfo2),
        FUNCTION("mallinfo", mallinfo),
        FUNCTION("malloc_info", malloc_info),
        FUNCTION("malloc_trim", nothing),
        FUNCTION("__scudo_print_stats", nothing),
        FUNCTION("scalable_allocation_command", nothing),
};

// One bit of the input a symbol: whether this allocator has it.
static uint64_t lacking;

bool any_symbol(const char *name, void *function)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(name, functions[i].name) == 0 && (lacking >> i & 1) == 0) {
            memcpy(function, &functions[i].function, sizeof functions[i].function);
            return true;
        }
    }
    return false;
}

bool malloc_library_symbol(const struct malloc_library *library, const char *name, void *function)
{
    (void)library;
    return any_symbol(name, function);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct allocator *const allocators[] = {&allocator_jemalloc, &allocator_google,
            &allocator_gperftools, &allocator_mimalloc, &allocator_scudo, &allocator_tbbmalloc,
            &allocator_glibc};
    static char buffer[960 * 1024];
    if (size < 2) {
        return 0;
    }
    at = data + 2;
    left = size - 2;
    lacking = data[1];
    const struct malloc_library library = {.path = "/lib/libtbbmalloc.so"};
    struct text text;
    text_begin(&text, buffer, sizeof buffer);
    text_number(&text, "format", 1);
    allocators[data[0] % (sizeof allocators / sizeof *allocators)]->write_statistics(
            &library, &text);
    text_end(&text);
    json_check(text.bytes, text.length);
    return 0;
}
