/* scudo: its own mallinfo2, or in older ones mallinfo. Its __scudo_print_stats writes to the
 * server's error log, and its malloc_info stops all threads for as long as it counts, so neither is
 * called.
 */
#include "allocator.h"

#include <stddef.h>

struct wide {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct narrow {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

typedef struct wide mallinfo2_function(void);
typedef struct narrow mallinfo_function(void);
typedef void print_function(void);
typedef int mallopt_function(int option, int value);

/* scudo's own (scudo/interface.h): free what is cached, in all of its size classes. */
enum { PURGE = -101, PURGE_ALL = -104 };

static bool is_in_use(const struct malloc_library *library)
{
    print_function *print;
    return malloc_library_symbol(library, "__scudo_print_stats", &print);
}

static void write_statistics(const struct malloc_library *library, struct text *text)
{
    mallinfo2_function *mallinfo2;
    mallinfo_function *mallinfo;
    if (malloc_library_symbol(library, "mallinfo2", &mallinfo2)) {
        const struct wide info = mallinfo2();
        text_number(text, "mapped", info.hblkhd);
        text_number(text, "allocated", info.uordblks);
        text_number(text, "free", info.fordblks);
    } else if (malloc_library_symbol(library, "mallinfo", &mallinfo)) {
        const struct narrow info = mallinfo();
        text_number(text, "mapped", (unsigned)info.hblkhd);
        text_number(text, "allocated", (unsigned)info.uordblks);
        text_number(text, "free", (unsigned)info.fordblks);
        text_number(text, "modulo", (uint64_t)1 << 32);
    }
}

static const char *trim(const struct malloc_library *library)
{
    mallopt_function *mallopt;
    if (!malloc_library_symbol(library, "mallopt", &mallopt))
        return NULL;
    if (mallopt(PURGE_ALL, 0) == 1)
        return "mallopt(M_PURGE_ALL)";
    return mallopt(PURGE, 0) == 1 ? "mallopt(M_PURGE)" : NULL;
}

const struct allocator allocator_scudo = {"scudo", is_in_use, write_statistics, trim};
