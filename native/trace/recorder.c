#include "recorder.h"
#include "clock.h"

#include <errno.h>
#include <unistd.h>

#include "listener.h"
#include "preload.h"
#include "writer.h"

#if defined __x86_64__
#include <cpuid.h>
#endif

struct recording recording;

_Thread_local struct thread thread __attribute__((tls_model("initial-exec")));

/* What a thread waits at most for an empty buffer, before its events are lost: ns. The writer may
 * just not have had a CPU; but a server must not stand still because a disk does. */
static const uint64_t PATIENCE = 200000000, NAP = 1000000;

static void drop(struct thread *self)
{
    atomic_fetch_add_explicit(
            self->slot != NULL ? &self->slot->dropped : &threads_dropped, 1, memory_order_relaxed);
}

static bool has_slot(struct thread *self)
{
    if (self->slot == NULL)
        self->slot = threads_take(self->creator - 1, self->born);
    return self->slot != NULL;
}

/* An empty buffer, for which it waits a while if one may come; NULL if there is none. */
static struct buffer *take_buffer(struct thread *self)
{
    struct buffer *buffer = buffers_take();
    if (buffer != NULL || self->waited)
        return buffer;
    const uint64_t deadline = clock_ns(CLOCK_MONOTONIC) + PATIENCE;
    for (;;) {
        /* Asked before it is tried: what came last is there by then. */
        const bool may_come = buffers_may_come();
        buffer = buffers_take();
        self->waited = buffer == NULL;
        if (buffer != NULL || !may_come || clock_ns(CLOCK_MONOTONIC) >= deadline ||
                !recorder_is_on())
            return buffer;
        writer_wake();
        clock_sleep(NAP);
    }
}

static void hand_over(struct thread *self)
{
    struct buffer *full = self->buffer;
    if (full == NULL)
        return;
    threads_set_name(self->slot);
    self->buffer = NULL;
    self->end = NULL;
    self->encoder.at = NULL;
    atomic_store_explicit(&self->slot->current, NULL, memory_order_release);
    buffers_hand_over(full);
}

static bool begin_buffer(struct thread *self, uint64_t generation)
{
    hand_over(self);
    struct buffer *buffer = take_buffer(self);
    if (buffer == NULL)
        return false;
    self->waited = false;
    if (self->generation != generation)
        self->buffers = 0;
    buffer->first = stamp_now();
    buffer->generation = generation;
    buffer->slot = self->slot;
    buffer->number = self->buffers++;
    buffer->written = buffer->written_events = 0;
    atomic_store_explicit(&buffer->published, 0, memory_order_relaxed);
    self->buffer = buffer;
    self->generation = generation;
    self->encoder = (struct encoder){.at = buffer->bytes, .stamp = buffer->first};
    self->end = buffer->bytes + BUFFER_ROOM;
    atomic_store_explicit(&self->slot->current, buffer, memory_order_release);
    return true;
}

/* Has the writer started when it is time; what a thread takes from malloc is recorded, too. */
static void consider_writer(const struct thread *self)
{
    const int error = errno;
    if (buffers_untouched() < BUFFERS / 2) {
        listener_start();
    } else {
        listener_consider(self->slot->tid == (uint32_t)preload.owner);
    }
    errno = error;
}

/* Gives the thread an empty buffer. False if there is none, and counts what is lost. */
static bool renew_buffer(struct thread *self, uint64_t generation)
{
    const int error = errno;
    self->busy = BUSY_RECORDING;
    atomic_signal_fence(memory_order_seq_cst);
    /* Not in a child that shares our memory until it is another program, nor in one that was made
     * behind the C library's back: it has no writer. */
    const bool renewed =
            getpid() == preload.owner && has_slot(self) && begin_buffer(self, generation);
    if (!renewed)
        drop(self);
    atomic_signal_fence(memory_order_seq_cst);
    self->busy = 0;
    errno = error;
    return renewed;
}

bool recorder_make_room(size_t bytes)
{
    struct thread *const self = &thread;
    for (;;) {
        const uint64_t generation =
                atomic_load_explicit(&recording.generation, memory_order_acquire);
        if (generation % 2 == 0)
            return false;
        if (self->busy != 0) {
            if ((self->busy & BUSY_OWN) == 0)
                drop(self);
            return false;
        }
        if (record_enter(self, generation, bytes))
            return true;
        if (!renew_buffer(self, generation))
            return false;
        consider_writer(self); /* which may record, and so may a signal's handler: look again */
    }
}

uint32_t recorder_thread_number(void)
{
    struct thread *const self = &thread;
    if (self->busy != 0 || !recorder_is_on())
        return 0;
    self->busy = BUSY_RECORDING;
    const bool has = has_slot(self);
    self->busy = 0;
    return has ? self->slot->number + 1 : 0;
}

/* The quick way of a call finds a number's highest bit by one operation, where x86-64 has it (Intel
 * since 2013): the one that all have takes eight on some. */
#if defined __x86_64__
#define QUICK __attribute__((target("lzcnt")))
#else
#define QUICK
#endif
static bool is_quick;

void recorder_look_at_processor(void)
{
#if defined __x86_64__
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    /* AMD64 Architecture Programmer's Manual 3, CPUID Fn8000_0001 ECX: ABM (Intel's: LZCNT). */
    const bool has_lzcnt = __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c >> 5 & 1) != 0;
#else
    const bool has_lzcnt = true;
#endif
    is_quick = stamp_by_counter && has_lzcnt;
}

static __attribute__((noinline, cold)) void *record_block_slowly(
        void *block, size_t size, unsigned kind, uint64_t generation)
{
    record_call(generation, kind, stamp_of_allocation(block), block, size);
    return block;
}

/* What is rare is a tail call, so that the rest needs no room on the stack. */
QUICK void *record_block(void *block, size_t size, unsigned kind, uint64_t generation)
{
    struct thread *const self = &thread;
    if (!is_quick || !record_enter(self, generation, LONGEST_RECORD))
        return record_block_slowly(block, size, kind, generation);
    own_blocks_add(&self->own, (uintptr_t)block);
    record_entered(self, kind, stamp_by_the_counter(), block, size);
    return block;
}

static __attribute__((noinline, cold)) void release_slowly(
        const void *block, size_t size, unsigned kind, uint64_t generation)
{
    record_call(generation, kind, stamp_of_free(block), block, size);
}

QUICK static inline __attribute__((always_inline)) void release(
        const void *block, size_t size, unsigned kind, uint64_t generation)
{
    struct thread *const self = &thread;
    if (!is_quick || !record_enter(self, generation, LONGEST_RECORD)) {
        release_slowly(block, size, kind, generation);
        return;
    }
    if (__builtin_expect(!own_blocks_remove(&self->own, (uintptr_t)block), 0))
        stamp_wait();
    record_entered(self, kind, stamp_by_the_counter(), block, size);
}

/* Apart, because a size that is known to be 0 takes no time to write. */
QUICK void record_release(const void *block, uint64_t generation)
{
    release(block, 0, FREE, generation);
}

QUICK void record_sized_release(const void *block, size_t size, uint64_t generation)
{
    release(block, event_size(size), FREE_SIZED, generation);
}

static void put_site(struct encoder *to, uint32_t site)
{
    if (site != 0)
        event_put(to, SITE, 0, 0, site);
}

/* What a malloc gives that takes any other alignment, as glibc's memalign does: that of the next power
 * of two. A trace has no others. */
static size_t round_alignment(size_t alignment)
{
    if ((alignment & (alignment - 1)) == 0)
        return alignment;
    const int bits = 64 - __builtin_clzl(alignment);
    return bits < 64 ? (size_t)1 << bits : 0;
}

void record_special(unsigned kind, const void *block, size_t size, size_t alignment, uint32_t site)
{
    struct thread *const self = &thread;
    const uint64_t generation = recorder_generation();
    if (generation == 0)
        return;
    const uint64_t stamp = stamp_of_allocation(block);
    if (!record_begin(self, generation, 3 * (size_t)LONGEST_RECORD))
        return;
    put_site(&self->encoder, site);
    if (alignment != 0)
        event_put(&self->encoder, ALIGNMENT, 0, 0, round_alignment(alignment));
    event_put_call(&self->encoder, kind, stamp, (uintptr_t)block, size);
    record_end(self);
}

/* The block is free already, so its stamp must not be that of a buffer which begins only now. */
void record_freeing_realloc(uint64_t generation, uint64_t before, const void *old)
{
    struct thread *const self = &thread;
    if (!record_begin(self, generation, LONGEST_RECORD))
        return;
    record_from(self, before);
    record_entered(self, FREE, before, old, 0);
}

void record_realloc(uint64_t before, const void *old, const void *moved, size_t size, uint32_t site)
{
    struct thread *const self = &thread;
    const uint64_t generation = recorder_generation();
    const uint64_t stamp = stamp_of_allocation(moved);
    if (generation == 0 || !record_begin(self, generation, 3 * (size_t)LONGEST_RECORD))
        return;
    record_from(self, before);
    put_site(&self->encoder, site);
    if (old != NULL)
        event_put_call(&self->encoder, REALLOC_FROM, before, (uintptr_t)old, 0);
    event_put_call(&self->encoder, REALLOC, stamp, (uintptr_t)moved, size);
    record_end(self);
}
