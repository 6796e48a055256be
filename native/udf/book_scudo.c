/* scudo: its own mallinfo2, or in older ones mallinfo. Its __scudo_print_stats writes to the server's error log, and its
 * malloc_info stops all threads for as long as it counts, so neither is called.
 */
#include "book.h"

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

static bool here(const struct owner *owner)
{
    print_function *print;
    return owner_symbol(owner, "__scudo_print_stats", &print);
}

static void tell(const struct owner *owner, struct text *text)
{
    mallinfo2_function *mallinfo2;
    mallinfo_function *mallinfo;
    if (owner_symbol(owner, "mallinfo2", &mallinfo2)) {
        const struct wide info = mallinfo2();
        text_number(text, "mapped", info.hblkhd);
        text_number(text, "allocated", info.uordblks);
        text_number(text, "free", info.fordblks);
    } else if (owner_symbol(owner, "mallinfo", &mallinfo)) {
        const struct narrow info = mallinfo();
        text_number(text, "mapped", (unsigned)info.hblkhd);
        text_number(text, "allocated", (unsigned)info.uordblks);
        text_number(text, "free", (unsigned)info.fordblks);
        text_number(text, "modulo", (uint64_t)1 << 32);
    }
}

static const char *trim(const struct owner *owner)
{
    mallopt_function *mallopt;
    if (!owner_symbol(owner, "mallopt", &mallopt))
        return NULL;
    if (mallopt(PURGE_ALL, 0) == 1)
        return "mallopt(M_PURGE_ALL)";
    return mallopt(PURGE, 0) == 1 ? "mallopt(M_PURGE)" : NULL;
}

const struct book book_scudo = {"scudo", here, tell, trim};
