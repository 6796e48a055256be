#include "stamp.h"

#include "clock.h"

#include <string.h>

#if defined __x86_64__
#include <cpuid.h>
#include <fcntl.h>
#include <unistd.h>
#endif

bool stamp_by_counter;

bool stamp_names_counter(const char *names, size_t length)
{
    static const char NAME[] = "tsc";
    for (size_t at = 0; at < length;) {
        size_t end = at;
        while (end < length && names[end] != ' ' && names[end] != '\n')
            end++;
        if (end < length && end - at == sizeof NAME - 1 && memcmp(names + at, NAME, end - at) == 0)
            return true;
        at = end + 1;
    }
    return false;
}

#if defined __x86_64__
/* AMD64 Architecture Programmer's Manual 3, CPUID Fn8000_0007 EDX: TscInvariant (Intel's manual
 * calls it so, too). */
static bool counter_is_invariant(void)
{
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d >> 8 & 1) != 0;
}

/* Whether one of the kernel's files of clocks names the counter; `unread` if it cannot be read. */
static bool is_named_in(const char *path, bool unread)
{
    char names[512];
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return unread;
    const ssize_t length = read(file, names, sizeof names);
    (void)close(file);
    return length < 0 ? unread : stamp_names_counter(names, (size_t)length);
}

/* The kernel has compared the processors: where their counters differ it takes this clock out of
 * those that there are, whatever the processor says of itself. */
static bool counter_is_trusted(void)
{
#define CLOCKS "/sys/devices/system/clocksource/clocksource0/"
    return is_named_in(CLOCKS "available_clocksource", true) &&
           (counter_is_invariant() || is_named_in(CLOCKS "current_clocksource", false));
#undef CLOCKS
}
#endif

void stamp_begin(void)
{
#if defined __x86_64__
    stamp_by_counter = counter_is_trusted();
#elif defined __aarch64__
    stamp_by_counter = true;
#endif
}

uint64_t stamp_of_clock(void)
{
    return clock_ns(CLOCK_MONOTONIC) >> STAMP_SHIFT;
}
