#include "session.h"
#include "clock.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../error_text.h"
#include "allocator.h"
#include "buffers.h"
#include "file.h"
#include "large.h"
#include "memory.h"
#include "preload.h"
#include "recorder.h"
#include "threads.h"

const char SESSION_EXIT[] = "exit", SESSION_ASKED[] = "asked", SESSION_LIMIT[] = "limit",
           SESSION_DISK[] = "disk";

struct session_status session_status;
_Atomic uint64_t session_next_limit, session_usual_limit;

static struct file file;
static struct clock_record beginning;
static bool is_from_start;
static uint64_t generation; /* of its buffers */
static bool is_near_limit;

/* Takes all clocks at one moment. */
static struct clock_record read_clocks(void)
{
    struct clock_record record = {0};
    uint64_t least = UINT64_MAX;
    /* The narrowest of some pairs of stamps is around the moment. */
    for (int i = 0; i < 8; i++) {
        const uint64_t before = stamp_now();
        const uint64_t monotonic = clock_ns(CLOCK_MONOTONIC);
        const uint64_t after = stamp_now();
        if (after - before < least) {
            least = after - before;
            record.stamp = before + least / 2;
            record.monotonic = monotonic;
        }
    }
    record.realtime = clock_ns(CLOCK_REALTIME);
    return record;
}

void session_from_start(void)
{
    beginning = read_clocks();
    is_from_start = true;
}

static bool append(struct chunk_header header, const void *payload, size_t length)
{
    header.written = stamp_now();
    const bool done = file_append(&file, &header, payload, length);
    atomic_store(&session_status.bytes, file.size);
    return done;
}

const char *session_failure(void)
{
    return file.is_full || is_near_limit ? SESSION_LIMIT : SESSION_DISK;
}

bool session_is_near_limit(void)
{
    const uint64_t most = (uint64_t)BUFFERS * BUFFER_SIZE;
    const uint64_t room = file.limit / 8 < most ? file.limit / 8 : most;
    is_near_limit = file.size + room > file.limit;
    return is_near_limit;
}

/* Text that is put together line by line. */
struct lines {
    size_t length;
    char text[8 * PATH_MAX];
};
static struct lines lines;

static void add_text(const char *name, const char *value)
{
    const size_t room = sizeof lines.text - lines.length;
    char *line = lines.text + lines.length;
    const int length = snprintf(line, room, "%s %s\n", name, value);
    if (length <= 0 || (size_t)length >= room) {
        *line = '\0';
        return;
    }
    for (int i = 0; i < length - 1; i++) {
        if (line[i] == '\n')
            line[i] = '?';
    }
    lines.length += (size_t)length;
}

static void add_number(const char *name, uint64_t value)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%" PRIu64, value);
    add_text(name, digits);
}

static void add_setting(const char *variable)
{
    add_text("setting", variable);
}

static bool write_head(void)
{
    char program[PATH_MAX] = "";
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char version[128];
    allocator_version(version, sizeof version);
    lines.length = 0;
    add_number("pid", (uint64_t)preload.owner);
    add_text("program", program);
    add_text("allocator", allocator_path());
    add_text("allocator_version", version);
    add_number("page_size", memory_page_size());
    add_number("from_start", is_from_start);
    add_text("clock", stamp_by_counter ? "counter" : "monotonic");
    add_number("stamp_shift", STAMP_SHIFT);
    add_number("large", TOUCHES_LEAST);
    add_number("limit", file.limit);
    add_number("has_settings", allocator_settings(add_setting));
    return append((struct chunk_header){.kind = CHUNK_HEAD}, lines.text, lines.length) &&
           append((struct chunk_header){.kind = CHUNK_CLOCK}, &beginning, sizeof beginning) &&
           session_write_clock();
}

bool session_open(char why[LONGEST_WHY])
{
    /* One from the start has lost what was lost before its file was there; any other one has lost
     * nothing yet. */
    if (!is_from_start) {
        beginning = read_clocks();
        threads_forget_dropped();
    }
    generation = atomic_load(&recording.generation) | 1;
    is_near_limit = false;
    atomic_store(&session_status.events, 0);
    atomic_store(&session_status.dropped, 0);
    atomic_store(&session_status.threads, 0);
    atomic_store(&session_status.began, beginning.monotonic);
    atomic_store(&session_status.ended_by, NULL);
    const uint64_t limit = atomic_exchange(&session_next_limit, atomic_load(&session_usual_limit));
    atomic_store(&session_status.limit, limit);
    if (file_open(&file, preload.directory, (int)preload.owner, limit) && write_head()) {
        atomic_store(&session_status.is_open, true);
        is_from_start = false; /* of the next one */
        return true;
    }
    const char *error = file.error != 0 ? error_text(file.error) : "the limit is too low";
    (void)snprintf(why, LONGEST_WHY, "%.400s: %s", file.path,
            error != NULL ? error : "an error without a name");
    atomic_store(&session_status.ended, clock_ns(CLOCK_MONOTONIC));
    atomic_store(&session_status.ended_by, session_failure());
    file_close(&file);
    return false;
}

/* The name, or a new one, of a thread. */
static bool announce(struct slot *slot, bool has_ended)
{
    const uint64_t died = atomic_load_explicit(&slot->died, memory_order_relaxed);
    struct thread_record record = {.number = slot->number,
            .tid = slot->tid,
            .creator = slot->creator,
            .ended = has_ended || died != 0,
            .born = slot->born,
            .died = died};
    memcpy(record.name, slot->name, sizeof record.name);
    if (slot->announced != generation)
        atomic_fetch_add(&session_status.threads, 1);
    slot->announced = generation;
    return append((struct chunk_header){.kind = CHUNK_THREAD, .thread = slot->number}, &record,
            sizeof record);
}

/* What has been published in a buffer since the last time. */
static bool write_buffer(struct slot *slot, struct buffer *buffer)
{
    const uint64_t published = atomic_load_explicit(&buffer->published, memory_order_acquire);
    const uint32_t bytes = (uint32_t)published;
    const uint32_t events = (uint32_t)(published >> 32);
    if (buffer->generation != generation || bytes <= buffer->written)
        return true;
    if (slot->announced != generation)
        (void)announce(slot, false);
    const struct chunk_header header = {.kind = CHUNK_EVENTS,
            .thread = slot->number,
            .buffer = buffer->number,
            .offset = buffer->written,
            .events = events - buffer->written_events,
            .dropped = atomic_load_explicit(&slot->dropped, memory_order_relaxed),
            .first = buffer->first};
    buffer->written = bytes;
    buffer->written_events = events;
    if (!append(header, buffer->bytes + header.offset, bytes - header.offset)) {
        atomic_fetch_add_explicit(&threads_dropped, header.events, memory_order_relaxed);
        return false;
    }
    atomic_fetch_add(&session_status.events, header.events);
    return true;
}

static bool write_queue(void)
{
    bool done = true;
    struct buffer *next_one = NULL;
    for (struct buffer *full = buffers_take_queue(); full != NULL; full = next_one) {
        next_one = full->next;
        done = write_buffer(full->slot, full) && done;
        buffers_give_back(full);
    }
    return done;
}

/* The name that a thread has now, which it may have been given late. */
static void read_name(struct slot *slot)
{
    char path[64];
    char name[THREAD_NAME] = "";
    (void)snprintf(path, sizeof path, "/proc/self/task/%" PRIu32 "/comm", slot->tid);
    struct descriptor name_file;
    if (!descriptor_take(&name_file, open(path, O_RDONLY | O_CLOEXEC)))
        return;
    const ssize_t length = read(name_file.number, name, sizeof name - 1);
    descriptor_close(&name_file);
    if (length <= 0)
        return;
    name[strcspn(name, "\n")] = '\0';
    memcpy(slot->name, name, sizeof name);
}

/* Writes what a thread has in its buffer; gives back what one has that has ended. */
static bool write_slot(struct slot *slot, bool has_ended)
{
    struct buffer *buffer = atomic_load_explicit(&slot->current, memory_order_acquire);
    bool done = buffer == NULL || write_buffer(slot, buffer);
    if (!has_ended)
        return done;
    if (slot->announced == generation)
        done = done && announce(slot, true);
    if (buffer != NULL)
        buffers_give_back(buffer);
    atomic_fetch_add_explicit(&threads_dropped, atomic_load(&slot->dropped), memory_order_relaxed);
    threads_give_back(slot);
    return done;
}

/* Those that have ended have handed over whatever they had before this was asked of them; so the
 * queue comes after the question, and before their slots are given back. */
bool session_drain(bool all)
{
    static bool has_ended[SLOTS];
    uint32_t slots = 0;
    uint32_t cursor = 0;
    if (all)
        memset(has_ended, 0, sizeof has_ended);
    for (struct slot *slot = NULL; all && (slot = threads_next(&cursor)) != NULL; slots = cursor)
        has_ended[cursor - 1] = threads_has_ended(slot);
    bool done = write_queue();
    uint64_t dropped = 0;
    cursor = 0;
    for (struct slot *slot = NULL; all && (slot = threads_next(&cursor)) != NULL;) {
        if (cursor <= slots) {
            dropped += has_ended[cursor - 1] ? 0 : atomic_load(&slot->dropped);
            done = write_slot(slot, has_ended[cursor - 1]) && done;
        }
    }
    if (all) {
        buffers_looked_at_all();
        atomic_store(&session_status.dropped, dropped + atomic_load(&threads_dropped));
    }
    return done;
}

bool session_write_clock(void)
{
    const struct clock_record now = read_clocks();
    return append((struct chunk_header){.kind = CHUNK_CLOCK}, &now, sizeof now);
}

bool session_write_mark(const char *line)
{
    return append((struct chunk_header){.kind = CHUNK_MARK}, line, strlen(line));
}

/* The names that threads have at the end. One may be ending, and still have its number. */
static void write_names(void)
{
    uint32_t cursor = 0;
    for (struct slot *slot = threads_next(&cursor); slot != NULL; slot = threads_next(&cursor)) {
        if (slot->announced != generation)
            continue;
        read_name(slot);
        (void)announce(slot, false);
    }
}

/* Which pages of the blocks of ours that are alive have been touched. */
static void write_touches(void)
{
    static unsigned char payload[LARGE_RECORDS + LONGEST_RECORD];
    struct touched_place place;
    uint32_t cursor = 0;
    while (touches_next(&cursor, &place)) {
        struct encoder to = {.at = payload};
        large_put_touches(&to, place.block, &place.which);
        /* The program goes on: what it has freed meanwhile may be somebody else's pages by now. */
        if (touches_is_still(&place)) {
            (void)append((struct chunk_header){.kind = CHUNK_TOUCHES, .thread = CHUNK_NO_THREAD},
                    payload, (size_t)(to.at - payload));
        }
    }
}

void session_close(const char *reason)
{
    write_names();
    write_touches();
    (void)session_write_clock();
    lines.length = 0;
    add_text("ended_by", reason);
    add_number("events", atomic_load(&session_status.events));
    add_number("dropped", atomic_load(&session_status.dropped));
    struct chunk_header header = {.kind = CHUNK_END, .written = stamp_now()};
    (void)file_append_last(&file, &header, lines.text, lines.length);
    atomic_store(&session_status.bytes, file.size);
    atomic_store(&session_status.ended, clock_ns(CLOCK_MONOTONIC));
    atomic_store(&session_status.ended_by, reason);
    atomic_store(&session_status.is_open, false);
    file_close(&file);
}

const char *session_path(void)
{
    return file.path;
}
