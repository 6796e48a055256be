/* Our own memory: from the kernel, never from malloc. */
#ifndef DBALLOC_PRELOAD_MEMORY_H
#define DBALLOC_PRELOAD_MEMORY_H

#include <stddef.h>

/* Zeroed pages that cost nothing until they are touched; NULL with errno if the kernel gives none.
 */
void *memory_map(size_t size);

/* The kernel's, in bytes: on aarch64 4, 16 or 64 KiB. */
size_t memory_page_size(void);

#endif
