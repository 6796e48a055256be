#include "environment.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK "DBALLOC_PORTABLE"

static const char loaders[] = "LD_";

/* One variable LD_… under its other name. */
static bool rename_variable(const char *variable)
{
    const char *equals = strchr(variable, '=');
    const size_t length = (size_t)(equals - variable);
    char *name = malloc(length + 1);
    char *other = malloc(sizeof MARK + 1 + length);
    bool done = false;
    if (name != NULL && other != NULL) {
        *(char *)mempcpy(name, variable, length) = '\0';
        stpcpy(stpcpy(other, MARK "_"), name);
        done = setenv(other, equals + 1, 1) == 0 && unsetenv(name) == 0;
    }
    free(name);
    free(other);
    return done;
}

bool environment_prepare(const char *directory)
{
    size_t at = 0;
    while (environ != NULL && environ[at] != NULL) {
        const char *variable = environ[at];
        if (strncmp(variable, loaders, strlen(loaders)) != 0 || strchr(variable, '=') == NULL) {
            at++;
            continue;
        }
        if (!rename_variable(variable))
            return false;
        at = 0; /* both calls move the others */
    }
    return setenv(MARK, directory, 1) == 0;
}
