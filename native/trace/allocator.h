/* Which malloc is recorded: its file, its version, and what the environment tells it. */
#ifndef DBALLOC_TRACE_ALLOCATOR_H
#define DBALLOC_TRACE_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>

/* The path of its file as the loader knows it; "" if that is not known. */
const char *allocator_path(void);

/* Puts its version, as it tells it itself, into `version`; "" if it tells none. */
void allocator_version(char *version, size_t room);

/* Calls `tell` for each variable that the program was started with and that may configure a malloc,
 * as NAME=VALUE, cut to what fits. False if the kernel does not say what it was started with. */
bool allocator_settings(void (*tell)(const char *variable));

#endif
