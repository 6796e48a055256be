#include "touch.h"

#include "plan.h"

void touch_pattern(void *block, uint64_t size, uint32_t pattern)
{
    unsigned char *bytes = block;
    uint64_t page = plan.header->page_size;
    uint64_t step = page < TOUCH_PAGE ? page : TOUCH_PAGE;
    uint64_t pages = size / page + (size % page != 0);
    const struct plan_run *run = plan.runs + plan.patterns[pattern].first;
    const struct plan_run *end = run + plan.patterns[pattern].runs;
    for (; run < end; run++) {
        if (run->first >= pages)
            continue;
        uint64_t count = run->pages < pages - run->first ? run->pages : pages - run->first;
        uint64_t last = (run->first + count) * page;
        for (uint64_t at = run->first * page; at < last && at < size; at += step)
            touch_byte(bytes + at);
    }
}
