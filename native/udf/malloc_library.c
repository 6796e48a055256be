#include "malloc_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* The library is copied into servers of older systems (containers): ask for the versions of these
 * two that every glibc has, not for those of 2.34, when they moved from libdl to libc.
 */
#if defined(__x86_64__)
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5");
__asm__(".symver dladdr, dladdr@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver dlsym, dlsym@GLIBC_2.17");
__asm__(".symver dladdr, dladdr@GLIBC_2.17");
#endif

bool find_malloc_library(struct malloc_library *library)
{
    Dl_info found;
    const void *address = dlsym(RTLD_DEFAULT, "malloc");
    if (address == NULL || dladdr(address, &found) == 0 || found.dli_fname == NULL)
        return false;
    *library = (struct malloc_library){.base = found.dli_fbase, .path = found.dli_fname};
    return true;
}

static bool store(const void *address, void *function)
{
    /* ISO C has no conversion from an object's address to a function's; POSIX says that they are of
     * one size. */
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

bool malloc_library_symbol(const struct malloc_library *library, const char *name, void *function)
{
    Dl_info found;
    const void *address = dlsym(RTLD_DEFAULT, name);
    if (address == NULL || dladdr(address, &found) == 0 || found.dli_fbase != library->base)
        return false;
    return store(address, function);
}

bool any_symbol(const char *name, void *function)
{
    return store(dlsym(RTLD_DEFAULT, name), function);
}
