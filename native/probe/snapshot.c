/* A snapshot goes through the socket: the probe writes no file, so that nothing of the server's user's is left anywhere,
 * and no path has to be agreed on. Its reader is src/dballoc/profile/snapshot.py.
 *
 *   "DBALLOCP"                                       8 bytes
 *   block*                                           each: tag (4 bytes), length of its payload (u32), payload
 *
 *   HEAD   version (u64) and 19 more u64, see head() below
 *   STAK   id, depth, truncated, 0 (u32 each); objects, bytes, variance (f64); samples (u64); depth × return address (u64),
 *          the innermost first. What was allocated there since the last reset, estimated.
 *   WAIT   stack's id, operation (0 malloc, 1 free), (u32 each); timed calls whose stack was taken: calls, ns in them; stalled
 *          calls, ns in those (u64 each). HEAD says for how many timed calls each of the former stands.
 *   LIVE   struct live_block, one after the other: 5 u64, 1 f64, 2 u32
 *   TIME   operation (0 malloc, 1 free), size class, time bucket, 0 (u32 each); calls timed, ns in them (u64)
 *   BUID   lines "build-id path" of what is loaded
 *   MAPS   /proc/self/maps, in pieces
 *   END.   nothing: without it the snapshot is cut short
 *
 * Numbers are in the machine's own order. Blocks of one kind may be many, but STAK is one stack; readers skip tags that
 * they don't know. The tables change while they are read: every live block that was there all the time is in it, once.
 */
#include "snapshot.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "latency.h"
#include "live.h"
#include "probe.h"
#include "stacks.h"
#include "unwind.h"

struct out {
    int client;
    bool failed;
    size_t length;
    unsigned char bytes[1 << 16];
};

/* One client at a time, one thread: see control.c. */
static struct out out;

static void flush(void)
{
    size_t at = 0;
    while (at < out.length && !out.failed) {
        const ssize_t sent = send(out.client, out.bytes + at, out.length - at, MSG_NOSIGNAL);
        if (sent > 0) {
            at += (size_t)sent;
        } else if (sent == 0 || errno != EINTR) {
            out.failed = true; /* gone, or too slow */
        }
    }
    out.length = 0;
}

static void put(const void *bytes, size_t length)
{
    if (out.length + length > sizeof out.bytes)
        flush();
    memcpy(out.bytes + out.length, bytes, length);
    out.length += length;
}

static void block(const char tag[5], uint32_t length)
{
    put(tag, 4);
    put(&length, sizeof length);
}

static void head(void)
{
    const uint64_t words[] = {
            SNAPSHOT_VERSION,
            clock_ns(CLOCK_REALTIME),
            clock_ns(CLOCK_MONOTONIC),
            probe.began,
            probe.reset,
            clock_ns(CLOCK_PROCESS_CPUTIME_ID),
            probe.reset_cpu,
            (uint64_t)probe.owner,
            probe.interval,
            live_totals.lost,
            live_totals.overwritten,
            stacks_lost,
            unwind_counts.by_pointers,
            unwind_counts.by_cfi,
            unwind_counts.incomplete,
            LATENCY_PERIOD,
            latency_overhead,
            (uint64_t)live_totals.bytes,
            (uint64_t)live_totals.peak,
            LATENCY_STACKS,
    };
    block("HEAD", sizeof words);
    put(words, sizeof words);
}

static void live_blocks(void)
{
    uint32_t cursor = 0;
    struct live_block found;
    while (!out.failed && live_next(&cursor, &found)) {
        block("LIVE", sizeof found);
        put(&found, sizeof found);
    }
}

static void wait_block(uint32_t stack, uint32_t operation, const struct stack_times *times)
{
    const uint64_t sums[] = {times->calls, times->nanoseconds, times->stalls, times->stalled};
    if (sums[0] == 0 && sums[2] == 0)
        return;
    const uint32_t words[] = {stack, operation};
    block("WAIT", sizeof words + sizeof sums);
    put(words, sizeof words);
    put(sums, sizeof sums);
}

static void stack_blocks(void)
{
    uint32_t cursor = 0;
    for (struct stack *s = stacks_next(&cursor); s != NULL && !out.failed; s = stacks_next(&cursor)) {
        const uint32_t words[] = {stacks_id(s), s->depth, s->truncated, 0};
        const double sums[] = {s->objects, s->bytes, s->variance};
        const uint64_t samples = s->samples;
        const uint32_t pcs = s->depth * (uint32_t)sizeof *s->pcs;
        block("STAK", (uint32_t)(sizeof words + sizeof sums + sizeof samples) + pcs);
        put(words, sizeof words);
        put(sums, sizeof sums);
        put(&samples, sizeof samples);
        put(s->pcs, pcs);
        for (uint32_t operation = 0; operation < OPERATIONS; operation++)
            wait_block(words[0], operation, &s->times[operation]);
    }
}

static void time_block(uint32_t operation, uint32_t size_class, uint32_t bucket)
{
    const struct latency *entry = latency_of((enum operation)operation, size_class, bucket);
    const uint64_t sums[] = {entry->count, entry->nanoseconds};
    if (sums[0] == 0)
        return;
    const uint32_t words[] = {operation, size_class, bucket, 0};
    block("TIME", sizeof words + sizeof sums);
    put(words, sizeof words);
    put(sums, sizeof sums);
}

static void time_blocks(void)
{
    for (uint32_t i = 0; i < OPERATIONS * LATENCY_SIZES * LATENCY_TIMES; i++)
        time_block(i / (LATENCY_SIZES * LATENCY_TIMES), i / LATENCY_TIMES % LATENCY_SIZES, i % LATENCY_TIMES);
}

static size_t padded(size_t size)
{
    return (size + 3) / 4 * 4;
}

/* elf(5): a note is its two lengths and its kind, its name and its text, each padded to four bytes. */
static int build_id(struct dl_phdr_info *info, size_t size, void *nothing)
{
    (void)size;
    (void)nothing;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_NOTE)
            continue;
        const unsigned char *at = (const unsigned char *)(info->dlpi_addr + part->p_vaddr);
        const unsigned char *end = at + part->p_memsz;
        while (at < end && (size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
            ElfW(Nhdr) note;
            memcpy(&note, at, sizeof note);
            const unsigned char *name = at + sizeof note;
            const unsigned char *text = name + padded(note.n_namesz);
            if (padded(note.n_namesz) > (size_t)(end - name) || note.n_descsz > (size_t)(end - text))
                break;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0 &&
                    note.n_descsz <= 64) {
                char hex[2 * 64 + 1];
                for (size_t k = 0; k < note.n_descsz; k++)
                    (void)snprintf(hex + 2 * k, 3, "%02x", text[k]);
                const size_t path = strnlen(info->dlpi_name, PATH_MAX);
                block("BUID", (uint32_t)(2 * note.n_descsz + 1 + path));
                put(hex, 2 * (size_t)note.n_descsz);
                put(" ", 1);
                put(info->dlpi_name, path);
            }
            at = text + padded(note.n_descsz);
        }
    }
    return out.failed;
}

static void maps(void)
{
    static char piece[1 << 14];
    const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        out.failed = true;
        return;
    }
    for (;;) {
        const ssize_t got = read(file, piece, sizeof piece);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            out.failed = true;
        if (got <= 0)
            break;
        block("MAPS", (uint32_t)got);
        put(piece, (size_t)got);
    }
    (void)close(file);
}

void snapshot_send(int client)
{
    out.client = client;
    out.failed = false;
    out.length = 0;
    put("DBALLOCP", 8);
    head();
    live_blocks();
    stack_blocks(); /* after the blocks, so that every block's stack is there */
    time_blocks();
    (void)dl_iterate_phdr(build_id, NULL);
    maps();
    if (!out.failed) /* else its end is missing, which says so */
        block("END.", 0);
    flush();
}
