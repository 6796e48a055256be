/* The build-id among an object's notes. */
#ifndef DBALLOC_PROBE_BUILD_ID_H
#define DBALLOC_PROBE_BUILD_ID_H

#include <stddef.h>

enum { LONGEST_BUILD_ID = 64 };

/* Writes its hexadecimal digits, and returns how many; 0 if there is none. Reads nothing beyond
 * `size`. */
size_t notes_build_id(const unsigned char *notes, size_t size, char digits[2 * LONGEST_BUILD_ID]);

#endif
