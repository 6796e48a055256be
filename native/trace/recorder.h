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
#include "own_blocks.h"
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
    struct buffer *buffer;
    struct slot *slot;
    uint64_t random;
    uint32_t buffers; /* that it has had in this generation */
    uint32_t creator; /* number of the thread that created it, plus 1; 0: not known */
    uint64_t born;
    uint8_t busy; /* BUSY_… */
    bool waited;  /* in vain for an empty buffer: it does not wait again before it has had one */
    struct own_blocks own;
};

extern _Thread_local struct thread thread __attribute__((tls_model("initial-exec")));

/* Decides which way calls go. After stamp_begin. */
void recorder_look_at_processor(void);

/* Whether something is to be recorded. The first call of all gets the recorder going. */
bool recorder_begin(void);

/* The generation of the recording that goes on, 0 if none does. */
static inline uint64_t recorder_generation(void)
{
    const uint64_t generation = atomic_load_explicit(&recording.generation, memory_order_relaxed);
    if (__builtin_expect((generation & 1) != 0, 1))
        return generation;
    const int state = atomic_load_explicit(&recording.state, memory_order_relaxed);
    return __builtin_expect(state == NOT_YET, 0) && recorder_begin() ? 1 : 0;
}

static inline bool recorder_is_on(void)
{
    return recorder_generation() != 0;
}

/* Makes the thread busy, with room for so many bytes of records. False if they are lost, and
 * counted, or nothing is recorded. errno stays. */
bool recorder_make_room(size_t bytes);

static inline bool record_has_room(const struct thread *self, uint64_t generation, size_t bytes)
{
    return __builtin_expect(
            self->generation == generation && (size_t)(self->end - self->encoder.at) >= bytes, 1);
}

/* Makes the thread busy if its buffer has room. Busy first: a signal handler that allocates between
 * the look and the writing would take the room, or the buffer. */
static inline bool record_enter(struct thread *self, uint64_t generation, size_t bytes)
{
    if (__builtin_expect(self->busy != 0, 0))
        return false;
    self->busy = BUSY_RECORDING;
    atomic_signal_fence(memory_order_seq_cst);
    if (record_has_room(self, generation, bytes))
        return true;
    self->busy = 0;
    return false;
}

/* A thread is busy from this on, until record_end; meanwhile it writes records of `bytes` at most. */
static inline bool record_begin(struct thread *self, uint64_t generation, size_t bytes)
{
    return record_enter(self, generation, bytes) || recorder_make_room(bytes);
}

/* Lets a buffer begin with a stamp that was taken before it: realloc's first one is from before the
 * call, and a later one would say that its block was still there when another thread had it. */
static inline void record_from(struct thread *self, uint64_t stamp)
{
    if (self->encoder.at == self->buffer->bytes && stamp < self->encoder.stamp)
        self->buffer->first = self->encoder.stamp = stamp;
}

/* What was written is one event. */
static inline void record_end(struct thread *self)
{
    struct buffer *const buffer = self->buffer;
    const uint64_t bytes = (uint64_t)(self->encoder.at - buffer->bytes);
    const uint64_t before = atomic_load_explicit(&buffer->published, memory_order_relaxed);
    const uint64_t events = (before | UINT32_MAX) + 1; /* << 32 */
    atomic_store_explicit(&buffer->published, events | bytes, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    self->busy = 0;
}

/* The stamp of a call that frees a block, before it. */
static inline uint64_t stamp_of_free(const void *block)
{
    if (__builtin_expect(!own_blocks_remove(&thread.own, (uintptr_t)block), 0))
        stamp_wait();
    return stamp_now();
}

/* That of a call that allocated one, after it. */
static inline uint64_t stamp_of_allocation(const void *block)
{
    own_blocks_add(&thread.own, (uintptr_t)block);
    return stamp_now();
}

/* Writes a call that needs one record alone, for which the thread is busy and has room. */
static inline void record_entered(
        struct thread *self, unsigned kind, uint64_t stamp, const void *block, size_t size)
{
    event_put_call(&self->encoder, kind, stamp, (uintptr_t)block, size);
    record_end(self);
}

/* A call that needs one record alone. */
static inline void record_call(
        uint64_t generation, unsigned kind, uint64_t stamp, const void *block, size_t size)
{
    struct thread *const self = &thread;
    if (record_begin(self, generation, LONGEST_RECORD))
        record_entered(self, kind, stamp, block, size);
}

/* Records a call that returned a block, now; returns the block. Not inlined, so that a function that
 * records nothing keeps its few registers; nor does it spill any itself. */
void *record_block(void *block, size_t size, unsigned kind, uint64_t generation);

/* Records a block that is about to be freed, by FREE or by FREE_SIZED. */
void record_release(const void *block, uint64_t generation);
void record_sized_release(const void *block, size_t size, uint64_t generation);

static inline void *record_allocation(unsigned kind, void *block, size_t size)
{
    const uint64_t generation = recorder_generation();
    return generation != 0 ? record_block(block, size, kind, generation) : block;
}

static inline void record_free(unsigned kind, const void *block, size_t size)
{
    const uint64_t generation = recorder_generation();
    if (generation != 0 && kind == FREE) {
        record_release(block, generation);
    } else if (generation != 0) {
        record_sized_release(block, size, generation);
    }
}

/* As record_allocation, with the alignment that was asked for, and the number of its call site (0:
 * none). */
void record_special(unsigned kind, const void *block, size_t size, size_t alignment, uint32_t site);

/* Records a realloc that freed its block and gave none, where `before` is the stamp before it. */
void record_freeing_realloc(uint64_t generation, uint64_t before, const void *old);

/* A realloc that gave `moved`, where `before` is the stamp before it. */
void record_realloc(
        uint64_t before, const void *old, const void *moved, size_t size, uint32_t site);

/* Takes a slot for the calling thread if it has none, and returns its number plus 1; 0 if it cannot
 * have one. */
uint32_t recorder_thread_number(void);

#endif
