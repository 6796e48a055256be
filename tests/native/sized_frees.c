/* C23's sized frees over any malloc; how many there were is printed at the end. A size that is not
 * that of the block ends the program. */
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static _Atomic unsigned long count;

void free_sized(void *block, size_t size)
{
    if (size > malloc_usable_size(block))
        abort();
    atomic_fetch_add(&count, 1);
    free(block);
}

void free_aligned_sized(void *block, size_t alignment, size_t size)
{
    if ((size_t)block % alignment != 0)
        abort();
    free_sized(block, size);
}

static __attribute__((destructor)) void end(void)
{
    (void)fprintf(stderr, "sized frees: %lu\n", (unsigned long)count);
}
