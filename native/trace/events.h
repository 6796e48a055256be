/* How events are written into a buffer. Its reader is src/dballoc/trace/recording/.
 *
 * A record is a head of two bytes, lowest first, and after it up to three numbers of 0 to 7 bytes
 * each, lowest first:
 *
 *   bits 0-3    kind, see below
 *   bits 4-6    bytes of the time, without its lowest three bits
 *   bits 7-9    bytes of the address
 *   bits 10-12  bytes of the size
 *   bits 13-15  the lowest three bits of the time
 *
 * Time: units of stamp.h since the record before it in the buffer, of the first one since the
 * buffer's first stamp. Address: in units of 8 bytes, as the zigzag-coded difference (2 d, of a
 * negative one -2 d - 1) to the record before it, of the first one to 0; the highest eight bits of
 * an address (a tag, if anything) are left out. Only kinds below PREFIXES have those two.
 *
 *   MALLOC CALLOC ALIGNED     a new block; time: after the call; size: bytes asked for
 *   REALLOC                   as those; the record before it may be its REALLOC_FROM
 *   REALLOC_FROM              time: before the call; the block that was given; its REALLOC follows
 *   FREE FREE_SIZED           time: before the call; size: as given, 2^56 - 1 at most; 0 of FREE
 *   ALIGNMENT                 size: alignment of the next record's block, in bytes
 *   SITE                      size: number of the call site of the next record's block
 *   TOUCHED                   a block whose pages were looked at; size: its bytes; in place of the
 *                             address: the number of its call site; in place of the time: r, if it
 *                             was one in 4^r of its site and size, 7 at most
 *   RUN                       a run of touched pages of the last TOUCHED; in place of the address:
 *                             pages from the end of the last run; size: pages
 *
 * Records that belong together are in one piece of a buffer.
 */
#ifndef DBALLOC_TRACE_EVENTS_H
#define DBALLOC_TRACE_EVENTS_H

#include <stdint.h>
#include <string.h>

enum event_kind {
    MALLOC = 1,
    CALLOC,
    ALIGNED,
    REALLOC,
    FREE,
    FREE_SIZED,
    REALLOC_FROM,
    PREFIXES,
    ALIGNMENT = PREFIXES,
    SITE,
    TOUCHED,
    RUN,
};

/* The most bytes that writing a record may change: a head, three times seven, and one that is
 * stored beyond. */
enum { LONGEST_RECORD = 24 };

/* Where a buffer is written, and what the next record is relative to. */
struct encoder {
    unsigned char *at;
    uint64_t stamp;
    uint64_t address;
};

/* Bytes of a number below 2^56. */
static inline unsigned event_bytes(uint64_t number)
{
    return (70U - (unsigned)__builtin_clzll(number << 1 | 1)) >> 3;
}

/* Any machine's order will do: a recording is read where it was made, or on its like. */
static inline void event_put(
        struct encoder *to, unsigned kind, uint64_t time, uint64_t address, uint64_t size)
{
    const unsigned times = event_bytes(time >> 3);
    const unsigned addresses = event_bytes(address);
    const unsigned sizes = event_bytes(size);
    const uint16_t head = (uint16_t)(kind | times << 4 | addresses << 7 | sizes << 10 |
                                     (unsigned)(time & 7) << 13);
    const uint64_t high_time = time >> 3;
    unsigned char *at = to->at;
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    memcpy(at, &high_time, sizeof high_time);
    at += times;
    memcpy(at, &address, sizeof address);
    at += addresses;
    memcpy(at, &size, sizeof size);
    to->at = at + sizes;
}

/* The size that a program says a block has, as it can be written: a program may say anything. */
static inline uint64_t event_size(uint64_t size)
{
    static const uint64_t MOST = (1ULL << 56) - 1;
    return size < MOST ? size : MOST;
}

/* A record of a kind below PREFIXES. `size`: below 2^56; no malloc gives more, see event_size. */
static inline void event_put_call(
        struct encoder *to, unsigned kind, uint64_t stamp, uint64_t address, uint64_t size)
{
    const uint64_t time = stamp > to->stamp ? stamp - to->stamp : 0;
    const uint64_t place = address << 8 >> 11;
    const int64_t change = (int64_t)(place - to->address);
    to->stamp += time;
    to->address = place;
    event_put(to, kind, time, (uint64_t)change << 1 ^ (uint64_t)(change >> 63), size);
}

#endif
