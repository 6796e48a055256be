/* The file of a recording: chunks, one after the other, each a header and its payload.
 *
 * HEAD     lines "name value": of the program and how it was recorded; the first chunk
 * CLOCK    a struct clock_record: which stamp was when
 * THREAD   a struct thread_record; a later one of the same thread replaces it
 * EVENTS   a piece of a thread's buffer (see events.h): its bytes from `offset` on, which begins
 *          and ends between records. The pieces of one buffer, in order, are the buffer.
 * TOUCHES  records TOUCHED and RUN alone (see events.h): blocks that were alive at the end
 * MARK     a line: the name, then KEY=VALUE, with spaces between
 * END      lines "name value": why it ended, how many events there are; the last chunk
 *
 * Numbers are in the machine's own order. The checksum is over the payload as 32-bit words, the
 * last one filled up with zeroes: the sum of all sums of the first words, modulo 2^64, its halves
 * added by exclusive or (after Fletcher, IEEE Transactions on Communications 30, 1982).
 */
#ifndef DBALLOC_TRACE_CHUNK_H
#define DBALLOC_TRACE_CHUNK_H

#include <stddef.h>
#include <stdint.h>

enum { CHUNK_MAGIC = 0x52544244 /* "DBTR" */, CHUNK_VERSION = 3 };

enum chunk_kind {
    CHUNK_HEAD = 1,
    CHUNK_CLOCK,
    CHUNK_THREAD,
    CHUNK_EVENTS,
    CHUNK_TOUCHES,
    CHUNK_MARK,
    CHUNK_END,
};

/* No thread. */
#define CHUNK_NO_THREAD UINT32_MAX

/* 64 bytes. `number`: of the chunk in its file. `thread`, `buffer`: whose, and which of its buffers,
 * both from 0. `events`: calls in the payload. `dropped`: events of that thread that were lost so far.
 * `first`: the buffer's first stamp; `written`: the stamp when this was written. */
struct chunk_header {
    uint32_t magic;
    uint16_t version, kind;
    uint32_t length, checksum;
    uint64_t number;
    uint32_t thread, buffer, offset, events;
    uint64_t dropped, first, written;
};
_Static_assert(sizeof(struct chunk_header) == 64, "the layout has no gaps");

/* Nanoseconds of CLOCK_MONOTONIC and CLOCK_REALTIME at a stamp. */
struct clock_record {
    uint64_t stamp, monotonic, realtime;
};

/* `creator`: the number of the thread that created it, CHUNK_NO_THREAD if that is not known.
 * `died`: the stamp of its end, 0 while it lives, or if that is not known; its last calls may come
 * after it. */
struct thread_record {
    uint32_t number, tid, creator, ended;
    uint64_t born, died;
    char name[16];
};

/* The checksum of a payload. */
uint32_t chunk_checksum(const void *payload, size_t length);

#endif
