/* Records events: the way of every call, a few nanoseconds long, and what it turns to when a buffer
 * is full.
 *
 * `recording.generation` is odd while a recording runs, another number for each recording, and even
 * while none does. A thread whose own generation is another one takes a new buffer before its next
 * event. So a recording begins and ends without a word to the threads.
 */
#ifndef DBALLOC_TRACE_RECORDER_H
#define DBALLOC_TRACE_RECORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buffers.h"
#include "events.h"
#include "stamp.h"
#include "threads.h"

/* NOT_YET: nothing has been called. STARTING: the first call is being made ready for. INERT:
 * forwarding alone, for good: not asked for, or a forked child. */
enum state { NOT_YET, STARTING, RUNNING, INERT };

struct recording {
    _Atomic uint64_t generation;
    _Atomic int state;
};

extern struct recording recording;

/* BUSY_RECORDING: already in the recorder, so that a signal handler's calls are lost. BUSY_OWN: what
 * it calls is ours, and not the program's. */
enum { BUSY_RECORDING = 1, BUSY_OWN = 2 };

/* Plain data in static TLS. */
struct thread {
    struct encoder encoder;
    unsigned char *end;  /* no record begins beyond */
    uint64_t generation; /* that its buffer is of */
    uint64_t published;  /* as in its buffer */
    struct buffer *buffer;
    struct slot *slot;
    uint64_t random;
    uint32_t buffers; /* that it has had in this generation */
    uint32_t creator; /* number of the thread that created it, plus 1; 0: not known */
    uint64_t born;
    uint8_t busy; /* BUSY_… */
    bool waited;  /* in vain for an empty buffer: it does not wait again before it has had one */
};

extern _Thread_local struct thread thread __attribute__((tls_model("initial-exec")));

/* Whether something is to be recorded. The first call of all gets the recorder going. */
bool recorder_begin(void);

static inline bool recorder_is_on(void)
{
    return (atomic_load_explicit(&recording.generation, memory_order_relaxed) & 1) != 0 ||
           (__builtin_expect(
                    atomic_load_explicit(&recording.state, memory_order_relaxed) == NOT_YET, 0) &&
                   recorder_begin());
}

/* Readies the thread to write so many bytes of records. False if they are lost, and counted, or
 * nothing is recorded. errno stays. */
bool recorder_make_room(size_t bytes);

/* A thread is busy between these two, in which it writes records of `bytes` at most. */
static inline bool record_begin(struct thread *self, size_t bytes)
{
    const uint64_t generation = atomic_load_explicit(&recording.generation, memory_order_relaxed);
    if (__builtin_expect(self->generation != generation || self->busy != 0 ||
                                 (size_t)(self->end - self->encoder.at) < bytes,
                0)) {
        if (!recorder_make_room(bytes))
            return false;
    }
    self->busy = BUSY_RECORDING;
    atomic_signal_fence(memory_order_seq_cst);
    return true;
}

/* What was written is one event. */
static inline void record_end(struct thread *self)
{
    const uint64_t bytes = (uint64_t)(self->encoder.at - self->buffer->bytes);
    self->published = ((self->published >> 32) + 1) << 32 | bytes;
    atomic_store_explicit(&self->buffer->published, self->published, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    self->busy = 0;
}

/* A call that needs one record alone. */
static inline void record_call(unsigned kind, uint64_t stamp, const void *block, size_t size)
{
    struct thread *const self = &thread;
    if (!record_begin(self, LONGEST_RECORD))
        return;
    event_put_call(&self->encoder, kind, stamp, (uintptr_t)block, size);
    record_end(self);
}

/* A call that returned a block, now. */
static inline void record_allocation(unsigned kind, const void *block, size_t size)
{
    if (recorder_is_on())
        record_call(kind, stamp_now(), block, size);
}

/* A block that is about to be freed. */
static inline void record_free(unsigned kind, const void *block, size_t size)
{
    if (recorder_is_on())
        record_call(kind, stamp_now(), block, size);
}

/* As record_allocation, with the alignment that was asked for, and the number of its call site (0:
 * none). */
void record_special(unsigned kind, const void *block, size_t size, size_t alignment, uint32_t site);

/* A realloc that gave `moved`, where `before` is the stamp before it. */
void record_realloc(
        uint64_t before, const void *old, const void *moved, size_t size, uint32_t site);

/* Takes a slot for the calling thread if it has none, and returns its number plus 1; 0 if it cannot
 * have one. */
uint32_t recorder_thread_number(void);

#endif
