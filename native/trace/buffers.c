#include "buffers.h"

#include <sys/mman.h>

#include "clock.h"
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
/* Queued for the writer, or being written. */
static _Atomic uint32_t handed_over;
/* How many the writer has given back; how many it had when it last looked at all threads. */
static uint64_t given_back, given_back_before;
/* When it did that and had none to give back, ns; 0: it had some, or has never looked. */
static _Atomic uint64_t looked_in_vain;
/* What was true then is taken to be true so long: ns. */
static const uint64_t AGAIN = 100000000;

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
    const bool was_handed_over = buffer->is_handed_over != 0;
    buffer->is_handed_over = 0;
    given_back++;
    stack_push(&empty, next, (uint32_t)(buffer - buffers) + 1);
    if (was_handed_over) /* after it is there: who finds none to come looks once more */
        atomic_fetch_sub_explicit(&handed_over, 1, memory_order_release);
}

void buffers_hand_over(struct buffer *buffer)
{
    buffer->is_handed_over = 1;
    atomic_fetch_add_explicit(&handed_over, 1, memory_order_relaxed);
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

void buffers_looked_at_all(void)
{
    const bool in_vain = given_back == given_back_before;
    given_back_before = given_back;
    atomic_store_explicit(
            &looked_in_vain, in_vain ? clock_ns(CLOCK_MONOTONIC) : 0, memory_order_release);
}

bool buffers_may_come(void)
{
    if (atomic_load_explicit(&handed_over, memory_order_acquire) != 0)
        return true;
    const uint64_t looked = atomic_load_explicit(&looked_in_vain, memory_order_acquire);
    return looked == 0 || clock_ns(CLOCK_MONOTONIC) - looked >= AGAIN;
}
