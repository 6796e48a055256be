/* The version is asked of functions that only return it. They count only if they are of the object
 * that malloc is of: a program may have several mallocs, of which one is used.
 *
 * The environment is what the kernel gave the program, as malloc read it at its beginning: the
 * program may change `environ` at any time, and other threads must not read it then.
 */
#include "allocator.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "descriptors.h"
#include "next_allocator.h"

/* Beginnings of names of variables that mallocs read. */
static const char *const VARIABLES[] = {"GLIBC_TUNABLES", "JE_MALLOC", "MALLOC", "MIMALLOC_",
        "SCUDO_", "TBB_MALLOC", "TCMALLOC_", "_RJEM_"};

static bool find_object(const void *address, Dl_info *info)
{
    return address != NULL && dladdr(address, info) != 0;
}

static bool find_malloc(Dl_info *info)
{
    const void *address = NULL;
    memcpy(&address, &next.malloc, sizeof address);
    return find_object(address, info);
}

const char *allocator_path(void)
{
    Dl_info info;
    return find_malloc(&info) && info.dli_fname != NULL ? info.dli_fname : "";
}

/* The function of this name, if it is of the object that malloc is of; else NULL. */
static void *find_function(const char *name)
{
    Dl_info malloc_info, info;
    void *address = dlsym(RTLD_DEFAULT, name);
    const bool is_of_malloc = find_malloc(&malloc_info) && find_object(address, &info) &&
                              info.dli_fbase == malloc_info.dli_fbase;
    return is_of_malloc ? address : NULL;
}

/* jemalloc's mallctl(3). */
static bool ask_jemalloc(char *version, size_t room)
{
    int (*mallctl)(const char *, void *, size_t *, void *, size_t) = NULL;
    void *const address = find_function("mallctl");
    memcpy(&mallctl, &address, sizeof mallctl);
    const char *text = NULL;
    size_t length = sizeof text;
    if (mallctl == NULL || mallctl("version", &text, &length, NULL, 0) != 0 || text == NULL)
        return false;
    (void)snprintf(version, room, "%s", text);
    return true;
}

/* gperftools' tc_version, which returns "gperftools 2.10" or the like. */
static bool ask_tcmalloc(char *version, size_t room)
{
    const char *(*tc_version)(int *, int *, const char **) = NULL;
    void *const address = find_function("tc_version");
    memcpy(&tc_version, &address, sizeof tc_version);
    int major = 0, minor = 0;
    const char *patch = NULL;
    const char *const text = tc_version != NULL ? tc_version(&major, &minor, &patch) : NULL;
    if (text == NULL)
        return false;
    (void)snprintf(version, room, "%s", text);
    return true;
}

/* mimalloc's mi_version: 209 is 2.0.9, and from 10000 on each part has two digits: 30300 is 3.3.0
 * (mimalloc.h, MI_MALLOC_VERSION). */
static bool ask_mimalloc(char *version, size_t room)
{
    int (*mi_version)(void) = NULL;
    void *const address = find_function("mi_version");
    memcpy(&mi_version, &address, sizeof mi_version);
    if (mi_version == NULL)
        return false;
    const int number = mi_version();
    const int base = number < 10000 ? 10 : 100;
    (void)snprintf(
            version, room, "%d.%d.%d", number / base / base, number / base % base, number % base);
    return true;
}

static bool ask_glibc(char *version, size_t room)
{
    const char *(*get_version)(void) = NULL;
    void *const address = find_function("gnu_get_libc_version");
    memcpy(&get_version, &address, sizeof get_version);
    if (get_version == NULL)
        return false;
    (void)snprintf(version, room, "%s", get_version());
    return true;
}

void allocator_version(char *version, size_t room)
{
    version[0] = '\0';
    (void)(ask_jemalloc(version, room) || ask_tcmalloc(version, room) ||
            ask_mimalloc(version, room) || ask_glibc(version, room));
}

static bool may_configure(const char *variable)
{
    for (size_t i = 0; i < sizeof VARIABLES / sizeof *VARIABLES; i++) {
        if (strncmp(variable, VARIABLES[i], strlen(VARIABLES[i])) == 0)
            return true;
    }
    return false;
}

bool allocator_settings(void (*tell)(const char *variable))
{
    struct descriptor file;
    if (!descriptor_take(&file, open("/proc/self/environ", O_RDONLY | O_CLOEXEC)))
        return false;
    char variable[2048], piece[2048];
    size_t length = 0;
    ssize_t got;
    while ((got = read(file.number, piece, sizeof piece)) > 0 || (got < 0 && errno == EINTR)) {
        for (ssize_t i = 0; i < got; i++) {
            if (piece[i] != '\0') {
                if (length < sizeof variable - 1)
                    variable[length++] = piece[i];
                continue;
            }
            variable[length] = '\0';
            length = 0;
            if (may_configure(variable))
                tell(variable);
        }
    }
    descriptor_close(&file);
    return got == 0;
}
