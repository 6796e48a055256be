/* Writing to a new block as its server would have, because untouched pages take no memory. */
#ifndef DBALLOC_REPLAY_TOUCH_H
#define DBALLOC_REPLAY_TOUCH_H

#include <stdint.h>

/* Of a page, or of a block that is smaller, each cache line is written: a small block is used
 * whole. Of larger ones a word a page is enough to have the page. */
#define TOUCH_PAGE 4096u
#define TOUCH_LINE 64u

static inline void touch_byte(unsigned char *byte)
{
    *(volatile unsigned char *)byte = 1;
}

/* From `begin` to the end of the block; realloc keeps what is before. */
static inline void touch_all(void *block, uint64_t begin, uint64_t size)
{
    unsigned char *bytes = block;
    uint64_t step = size <= TOUCH_PAGE ? TOUCH_LINE : TOUCH_PAGE;
    if (begin >= size)
        return;
    for (uint64_t at = begin; at < size; at += step)
        touch_byte(bytes + at);
    touch_byte(bytes + size - 1);
}

/* The first page of the block, or all of it if it is smaller. */
static inline void touch_first(void *block, uint64_t size)
{
    touch_all(block, 0, size < TOUCH_PAGE ? size : TOUCH_PAGE);
}

/* The runs of a pattern, as far as the block reaches. */
void touch_pattern(void *block, uint64_t size, uint32_t pattern);

#endif
