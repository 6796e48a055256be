/* A snapshot goes through the socket. The probe writes no file, so it leaves nothing behind that
 * belongs to the server's user, and no path has to be agreed on. Its reader is
 * src/dballoc/profile/heap/probe_snapshot.py.
 *
 *   "DBALLOCP"   8 bytes
 *   block*       each: tag (4 bytes), length of its payload (u32), payload
 *
 *   HEAD   version (u64) and 19 more u64, see head() below
 *   STAK   id, depth, truncated, 0 (u32 each); objects, bytes, variance (f64); samples (u64);
 *          depth × return address (u64), the innermost first. What was allocated there since the
 *          last reset, estimated.
 *   WAIT   stack's id, operation (0 malloc, 1 free), (u32 each); timed calls whose stack was taken:
 *          calls, ns in them; stalled calls, ns in those (u64 each). HEAD says for how many timed
 *          calls each of the former stands.
 *   LIVE   struct live_block, one after the other: 5 u64, 1 f64, 2 u32
 *   TIME   operation (0 malloc, 1 free), size class, time bucket, 0 (u32 each); calls timed, ns in
 *          them (u64)
 *   BUID   lines "build-id path" of what is loaded
 *   MAPS   /proc/self/maps, in pieces
 *   END.   nothing: without it the snapshot is cut short
 *
 * Numbers are in the machine's own order. Blocks of one kind may be many, but STAK is one stack;
 * readers skip tags that they don't know. The tables change while they are read: every live block
 * that was there all the time is in it, once.
 */
#include "snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "build_id.h"
#include "clock.h"
#include "latency.h"
#include "live.h"
#include "preload.h"
#include "probe.h"
#include "stacks.h"
#include "unwind.h"

struct out {
    struct client *client;
    const struct descriptor *file; /* where there is no client */
    bool failed;
    size_t length;
    unsigned char bytes[1 << 16];
};

/* One client at a time, one thread (see listener.c), and the one that ends the program. */
static struct out out;
static _Atomic bool in_use;

static bool write_all(const struct descriptor *file, const unsigned char *bytes, size_t length)
{
    while (length > 0) {
        const ssize_t count = write(file->number, bytes, length);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        bytes += count;
        length -= (size_t)count;
    }
    return true;
}

static void flush(void)
{
    if (!out.failed && !(out.client != NULL ? client_send(out.client, out.bytes, out.length)
                                            : write_all(out.file, out.bytes, out.length)))
        out.failed = true;
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
            preload.began,
            probe.reset,
            clock_ns(CLOCK_PROCESS_CPUTIME_ID),
            probe.reset_cpu,
            (uint64_t)preload.owner,
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
    for (struct stack *s = stacks_next(&cursor); s != NULL && !out.failed;
            s = stacks_next(&cursor)) {
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
    for (uint32_t i = 0; i < OPERATIONS * LATENCY_SIZES * LATENCY_TIMES; i++) {
        time_block(i / (LATENCY_SIZES * LATENCY_TIMES), i / LATENCY_TIMES % LATENCY_SIZES,
                i % LATENCY_TIMES);
    }
}

/* The loaded objects, collected under the loader's lock. Nothing is sent before the lock is free
 * again, because a client that does not read would block the program's dlopen. There is room for
 * some thousands of objects; further ones are left out. */
struct lines {
    size_t length;
    char bytes[1 << 19];
};
static struct lines build_ids;

/* Its notes, if they are mapped as they say. */
static size_t build_id(const struct dl_phdr_info *object, const ElfW(Phdr) * notes,
        char digits[2 * LONGEST_BUILD_ID])
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_R) != 0 &&
                notes->p_vaddr >= part->p_vaddr &&
                notes->p_vaddr - part->p_vaddr <= part->p_filesz &&
                notes->p_filesz <= part->p_filesz - (notes->p_vaddr - part->p_vaddr)) {
            return notes_build_id((const unsigned char *)(object->dlpi_addr + notes->p_vaddr),
                    notes->p_filesz, digits);
        }
    }
    return 0;
}

static int add_build_id(struct dl_phdr_info *object, size_t size, void *nothing)
{
    (void)size;
    (void)nothing;
    char digits[2 * LONGEST_BUILD_ID];
    size_t length = 0;
    for (int i = 0; i < object->dlpi_phnum && length == 0; i++) {
        if (object->dlpi_phdr[i].p_type == PT_NOTE)
            length = build_id(object, &object->dlpi_phdr[i], digits);
    }
    const char *name = object->dlpi_name != NULL ? object->dlpi_name : "";
    const size_t path = strnlen(name, PATH_MAX);
    if (length == 0 || length + path + 2 > sizeof build_ids.bytes - build_ids.length)
        return 0;
    char *at = build_ids.bytes + build_ids.length;
    memcpy(at, digits, length);
    at[length] = ' ';
    memcpy(at + length + 1, name, path);
    at[length + 1 + path] = '\n';
    build_ids.length += length + path + 2;
    return 0;
}

/* A line a block, without its end. */
static void send_build_ids(void)
{
    build_ids.length = 0;
    (void)dl_iterate_phdr(add_build_id, NULL);
    size_t at = 0;
    while (at < build_ids.length && !out.failed) {
        const char *line = build_ids.bytes + at;
        const char *end = memchr(line, '\n', build_ids.length - at);
        const size_t length = end != NULL ? (size_t)(end - line) : build_ids.length - at;
        block("BUID", (uint32_t)length);
        put(line, length);
        at += length + 1;
    }
}

static void maps(void)
{
    static char piece[1 << 14];
    struct descriptor file;
    if (!descriptor_take(&file, open("/proc/self/maps", O_RDONLY | O_CLOEXEC))) {
        out.failed = true;
        return;
    }
    off_t at = 0;
    while (!out.failed) {
        /* From a place of our own: whoever may have got the number has another. */
        const ssize_t got =
                descriptor_is_ours(&file) ? pread(file.number, piece, sizeof piece, at) : -1;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            out.failed = true;
        if (got <= 0)
            break;
        at += got;
        block("MAPS", (uint32_t)got);
        put(piece, (size_t)got);
    }
    descriptor_close(&file);
}

static bool send_all(struct client *client, const struct descriptor *file)
{
    out.client = client;
    out.file = file;
    out.failed = false;
    out.length = 0;
    put("DBALLOCP", 8);
    head();
    live_blocks();
    stack_blocks(); /* after the blocks, so that every block's stack is there */
    time_blocks();
    send_build_ids();
    maps();
    if (!out.failed) /* else its end is missing, which shows the failure */
        block("END.", 0);
    flush();
    return !out.failed;
}

void snapshot_send(struct client *client)
{
    if (atomic_exchange(&in_use, true))
        return; /* the program is at its end */
    (void)send_all(client, NULL);
    atomic_store(&in_use, false);
}

bool snapshot_write(const struct descriptor *file)
{
    static const uint64_t MOMENT = 2000000000; /* ns */
    const uint64_t deadline = clock_ns(CLOCK_MONOTONIC) + MOMENT;
    while (atomic_exchange(&in_use, true)) {
        if (clock_ns(CLOCK_MONOTONIC) > deadline) {
            errno = EBUSY;
            return false;
        }
        (void)usleep(1000);
    }
    return send_all(NULL, file); /* it stays in use: nothing comes after it */
}
