#include "stamp.h"

#include "clock.h"

#if defined __x86_64__
#include <cpuid.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#endif

bool stamp_by_counter;

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

/* Whether the kernel itself keeps time by it: it has compared the processors. */
static bool kernel_trusts_counter(void)
{
    char name[8] = "";
    const int file = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
            O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    const ssize_t length = read(file, name, sizeof name - 1);
    (void)close(file);
    return length == 4 && memcmp(name, "tsc\n", 4) == 0;
}
#endif

void stamp_begin(void)
{
#if defined __x86_64__
    stamp_by_counter = counter_is_invariant() || kernel_trusts_counter();
#elif defined __aarch64__
    stamp_by_counter = true;
#endif
}

uint64_t stamp_of_clock(void)
{
    return clock_ns(CLOCK_MONOTONIC) >> STAMP_SHIFT;
}
