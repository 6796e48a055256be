#include "large.h"

#include <string.h>

#include "next_allocator.h"
#include "recorder.h"
#include "sites.h"

void *large_allocate(size_t size, size_t alignment, uintptr_t place, uint32_t *site)
{
    struct thread *const self = &thread;
    *site = 0;
    if (self->busy != 0 || !recorder_is_on())
        return NULL;
    *site = sites_number(place);
    void *block =
            touches_allocate(&self->random, size, alignment, *site, sites_rarity(*site, size));
    if (block != NULL)
        sites_count_sample(*site, size);
    return block;
}

/* What was touched of a block of ours. */
struct touched_pages {
    size_t count;
    struct touched_run runs[TOUCHES_RUNS];
};

static void put_pages(
        struct encoder *to, const struct touched_block *which, const struct touched_pages *pages)
{
    event_put(to, TOUCHED, which->rarity, which->site, which->size);
    for (size_t i = 0; i < pages->count; i++)
        event_put(to, RUN, 0, pages->runs[i].untouched, pages->runs[i].touched);
}

void large_put_touches(struct encoder *to, const void *block, const struct touched_block *which)
{
    struct touched_pages pages;
    pages.count = touches_look(block, which->size, pages.runs);
    put_pages(to, which, &pages);
}

bool large_free(unsigned kind, const void *block, size_t size)
{
    struct touched_block which;
    if (!touches_is(block, &which))
        return false;
    struct thread *const self = &thread;
    const uint64_t stamp = stamp_of_free(block);
    const uint64_t generation = recorder_generation();
    if (generation != 0 && record_begin(self, generation, LARGE_RECORDS)) {
        large_put_touches(&self->encoder, block, &which);
        event_put_call(&self->encoder, kind, stamp, (uintptr_t)block, event_size(size));
        record_end(self);
    }
    return touches_free(block);
}

void *large_realloc(const void *block, size_t size, const struct touched_block *which)
{
    struct thread *const self = &thread;
    const uint64_t before = stamp_of_free(block);
    void *moved = next.malloc(size);
    if (moved == NULL)
        return NULL;
    /* First: reading a page that was never touched touches it. */
    struct touched_pages pages;
    pages.count = recorder_is_on() ? touches_look(block, which->size, pages.runs) : 0;
    memcpy(moved, block, which->size < size ? which->size : size);
    const uint64_t after = stamp_of_allocation(moved);
    const uint64_t generation = recorder_generation();
    if (generation != 0 &&
            record_begin(self, generation, LARGE_RECORDS + 2 * (size_t)LONGEST_RECORD)) {
        record_from(self, before);
        put_pages(&self->encoder, which, &pages);
        event_put_call(&self->encoder, REALLOC_FROM, before, (uintptr_t)block, 0);
        event_put_call(&self->encoder, REALLOC, after, (uintptr_t)moved, size);
        record_end(self);
    }
    (void)touches_free(block);
    return moved;
}
