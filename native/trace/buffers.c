#include "buffers.h"

#include <sys/mman.h>

#include "memory.h"
#include "tagged_stack.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static struct buffer *buffers;
static _Atomic uint32_t next[BUFFERS + 1];
static struct tagged_stack empty;
/* Those beyond this one have never been touched. */
static _Atomic uint32_t used;
static _Atomic(struct buffer *) queue;

bool buffers_begin(void)
{
    buffers = memory_map(BUFFERS * sizeof *buffers);
    return buffers != NULL;
}

struct buffer *buffers_take(void)
{
    const uint32_t number = stack_pop(&empty, next);
    if (number != STACK_EMPTY)
        return &buffers[number - 1];
    if (atomic_load_explicit(&used, memory_order_relaxed) >= BUFFERS)
        return NULL;
    const uint32_t fresh = atomic_fetch_add_explicit(&used, 1, memory_order_relaxed);
    if (fresh >= BUFFERS)
        return NULL;
    /* Its pages at once: one by one, they are a fault each. Linux before 5.14 does not know it. */
    (void)madvise(&buffers[fresh], sizeof *buffers, MADV_POPULATE_WRITE);
    return &buffers[fresh];
}

void buffers_give_back(struct buffer *buffer)
{
    stack_push(&empty, next, (uint32_t)(buffer - buffers) + 1);
}

void buffers_hand_over(struct buffer *buffer)
{
    struct buffer *top = atomic_load_explicit(&queue, memory_order_relaxed);
    do {
        buffer->next = top;
    } while (!atomic_compare_exchange_weak_explicit(
            &queue, &top, buffer, memory_order_release, memory_order_relaxed));
}

struct buffer *buffers_take_queue(void)
{
    struct buffer *last = atomic_exchange_explicit(&queue, NULL, memory_order_acquire);
    struct buffer *first = NULL;
    while (last != NULL) {
        struct buffer *before = last->next;
        last->next = first;
        first = last;
        last = before;
    }
    return first;
}

uint32_t buffers_untouched(void)
{
    const uint32_t touched = atomic_load_explicit(&used, memory_order_relaxed);
    return touched < BUFFERS ? BUFFERS - touched : 0;
}
