/* The buffers that threads write events into: a fixed number of them, handed to the writer when they
 * are full. Nothing here waits or allocates. */
#ifndef DBALLOC_TRACE_BUFFERS_H
#define DBALLOC_TRACE_BUFFERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each thread that records has one as long as it lives: so many threads can at a time. */
enum { BUFFER_SIZE = 16 << 10, BUFFER_HEAD = 56, BUFFERS = 3584 };
enum { BUFFER_ROOM = BUFFER_SIZE - BUFFER_HEAD };

struct slot;

/* Its thread alone writes it, but for `next`, `written`, `written_events` and the end of
 * `is_handed_over`, and only what lies beyond what it has published; the writer reads what is
 * published, at any time. */
struct buffer {
    _Atomic uint64_t published; /* events << 32 | bytes */
    uint64_t first;             /* stamp */
    uint64_t generation;
    struct buffer *next; /* in the queue of full ones */
    struct slot *slot;
    uint32_t number;                  /* of its thread's */
    uint32_t written, written_events; /* the writer's: what is in the file */
    uint32_t is_handed_over;          /* to the writer, which has not given it back */
    unsigned char bytes[BUFFER_ROOM];
};
_Static_assert(sizeof(struct buffer) == BUFFER_SIZE, "buffers lie one after the other");

/* False with errno if there is no memory for them. */
bool buffers_begin(void);

/* NULL if none is free. */
struct buffer *buffers_take(void);
void buffers_give_back(struct buffer *buffer);

/* Queues a full one for the writer. */
void buffers_hand_over(struct buffer *buffer);
/* All that are queued, in their order, by `next`. */
struct buffer *buffers_take_queue(void);

/* How many were never taken so far. */
uint32_t buffers_untouched(void);

/* Whether one that is not free may be soon: the writer has some, or threads may have ended since it
 * last looked. Those of threads that live are theirs for good. */
bool buffers_may_come(void);
/* Notes that the writer has looked at all threads, and given back what it could. */
void buffers_looked_at_all(void);

#endif
