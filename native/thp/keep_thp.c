/* Keeps transparent huge pages for a server that would switch them off for itself.
 *
 * MariaDB >= 10.11.12 (and 11.4.5, 11.8) calls prctl(PR_SET_THP_DISABLE, 1) at start, so the host's
 * THP mode does not apply to it: an experiment that varies THP would compare "never" with "never".
 * Preloaded, this library swallows that one call and passes every other prctl to the kernel
 * unchanged. It is preloaded only if a variant asks for THP.
 *
 * It allocates nothing and calls no libc function but syscall(2)'s wrapper, so it can be loaded in
 * front of any malloc.
 */
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int prctl(int option, ...)
{
    /* prctl(2) takes four more arguments, each as wide as a register; callers leave out the
     * trailing ones. Like libc's own wrapper, read all four: what was not passed is whatever the
     * registers hold, and the kernel ignores it for every option that does not document it. */
    va_list list;
    va_start(list, option);
    const unsigned long argument2 = va_arg(list, unsigned long);
    const unsigned long argument3 = va_arg(list, unsigned long);
    const unsigned long argument4 = va_arg(list, unsigned long);
    const unsigned long argument5 = va_arg(list, unsigned long);
    va_end(list);

    /* Any value but 0 disables, as the kernel reads it; 0, which enables, passes. */
    if (option == PR_SET_THP_DISABLE && argument2 != 0)
        return 0;

    /* Sets errno and returns -1 on an error, as prctl does. */
    return (int)syscall(SYS_prctl, option, argument2, argument3, argument4, argument5);
}
