// The recorder's parts that know nothing of malloc, under a sanitizer: threads that fill buffers,
// hand them over and take others, while one reads all that they publish, as the writer does.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "buffers.h"
#include "chunk.h"
#include "events.h"
#include "preload.h"
#include "sites.h"
#include "stamp.h"
#include "touches.h"

enum { THREADS = 8, RECORDS = 60000, PAGES = 40 };

const char preload_name[] = "parts";

static _Atomic int running = THREADS;
static _Atomic(struct buffer *) current[THREADS];

static void check(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

static struct buffer *take(void)
{
    struct buffer *buffer = buffers_take();
    while (buffer == NULL) {
        buffer = buffers_take();
    }
    buffer->written = buffer->written_events = 0;
    atomic_store_explicit(&buffer->published, 0, memory_order_relaxed);
    return buffer;
}

static void *work(void *number)
{
    const uintptr_t index = (uintptr_t)number;
    struct buffer *buffer = take();
    struct encoder to = {.at = buffer->bytes};
    uint64_t events = 0;
    atomic_store(&current[index], buffer);
    for (uint64_t i = 0; i < RECORDS; i++) {
        if (to.at + LONGEST_RECORD > buffer->bytes + BUFFER_ROOM) {
            atomic_store(&current[index], NULL);
            buffers_hand_over(buffer);
            buffer = take();
            to = (struct encoder){.at = buffer->bytes};
            events = 0;
            atomic_store(&current[index], buffer);
        }
        event_put_call(&to, i % 2 == 0 ? MALLOC : FREE, i * 5, (i * 77 % 5000) << 4, i % 1000);
        events++;
        atomic_store_explicit(&buffer->published, events << 32 | (uint64_t)(to.at - buffer->bytes),
                memory_order_release);
    }
    atomic_store(&current[index], NULL);
    buffers_hand_over(buffer);
    running--;
    return NULL;
}

// Walks what is new in a buffer; returns its events.
static uint64_t read_new(struct buffer *buffer)
{
    const uint64_t published = atomic_load_explicit(&buffer->published, memory_order_acquire);
    const uint32_t end = (uint32_t)published;
    uint32_t events = 0;
    uint32_t at = buffer->written;
    while (at < end) {
        uint16_t head = 0;
        memcpy(&head, buffer->bytes + at, sizeof head);
        check((head & 15) == MALLOC || (head & 15) == FREE, "no record where one begins");
        at += 2U + (head >> 4 & 7) + (head >> 7 & 7) + (head >> 10 & 7);
        events++;
    }
    check(at == end && buffer->written_events + events == published >> 32, "a record is cut");
    (void)chunk_checksum(buffer->bytes + buffer->written, end - buffer->written);
    buffer->written = end;
    buffer->written_events += events;
    return events;
}

static uint64_t read_queue(void)
{
    uint64_t events = 0;
    struct buffer *next = NULL;
    for (struct buffer *full = buffers_take_queue(); full != NULL; full = next) {
        next = full->next;
        events += read_new(full);
        buffers_give_back(full);
    }
    return events;
}

static void exchange_buffers(void)
{
    pthread_t threads[THREADS];
    uint64_t events = 0;
    check(buffers_begin(), "no memory");
    for (intptr_t i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "no thread");
    }
    while (running > 0) {
        events += read_queue();
        for (int i = 0; i < THREADS; i++) {
            struct buffer *buffer = atomic_load(&current[i]);
            if (buffer != NULL) {
                events += read_new(buffer);
            }
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    events += read_queue();
    check(events == (uint64_t)THREADS * RECORDS, "events are missing, or there twice");
}

static _Atomic bool is_touching;

// Looks at the others' blocks, as the writer does: what was there all the time is whole.
static void *look_meanwhile(void *nothing)
{
    struct touched_place place;
    struct touched_run runs[TOUCHES_RUNS];
    (void)nothing;
    while (atomic_load(&is_touching)) {
        for (uint32_t cursor = 0; touches_next(&cursor, &place);) {
            const size_t count = touches_look(place.block, place.which.size, runs);
            if (!touches_is_still(&place))
                continue;
            check(place.which.site == (uint32_t)place.which.size, "another block's site");
            check(count <= 2 && (count == 0 || runs[0].untouched >= 3), "another block's pages");
        }
    }
    return NULL;
}

static void *touch(void *number)
{
    uint64_t random = (uintptr_t)number + 1;
    for (int i = 0; i < 200; i++) {
        struct touched_run runs[TOUCHES_RUNS];
        struct touched_block which;
        const size_t size = (size_t)(PAGES + i % 7) * 4096;
        const uint32_t site = sites_number((uintptr_t)&current[i % THREADS]);
        sites_count_sample(site, size);
        check(sites_rarity(site, size) <= LAST_RARITY, "no rarity");
        char *block = touches_allocate(&random, size, 0, (uint32_t)size, 0);
        check(block != NULL && touches_is(block, &which) && which.size == size, "no block");
        block[4096 * 3] = block[4096 * 4] = block[4096 * 9] = 1;
        check(touches_look(block, size, runs) == 2, "other runs");
        check(runs[0].untouched == 3 && runs[0].touched == 2, "another first run");
        check(runs[1].untouched == 4 && runs[1].touched == 1, "another second run");
        check(touches_free(block), "it is not there"); // and may be another thread's at once
    }
    return NULL;
}

static void look_at_touches(void)
{
    pthread_t threads[THREADS];
    pthread_t looking;
    struct touched_block which;
    struct touched_place place;
    uint32_t cursor = 0;
    atomic_store(&is_touching, true);
    check(pthread_create(&looking, NULL, look_meanwhile, NULL) == 0, "no thread");
    for (intptr_t i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, touch, (void *)i) == 0, "no thread");
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    atomic_store(&is_touching, false);
    pthread_join(looking, NULL);
    check(!touches_next(&cursor, &place), "a block is left");
    char *many = touches_allocate(&(uint64_t){1}, (size_t)1000 * 4096, 0, 1, 0);
    struct touched_run runs[TOUCHES_RUNS];
    for (size_t page = 0; page < 1000; page += 2) {
        many[page * 4096] = 1;
    }
    uint64_t touched = 0;
    check(touches_look(many, (size_t)1000 * 4096, runs) == TOUCHES_RUNS, "not all runs");
    for (int i = 0; i < TOUCHES_RUNS; i++) {
        touched += runs[i].touched;
    }
    check(touched == 500, "touched pages are missing");
    check(touches_free(many) && !touches_is(many, &which), "it is still there");
    errno = 0;
    check(touches_look(many, 4096, runs) == 0 && errno == 0, "free would change errno");
}

// Draws of threads one after the other, all of them on the stack of the first.
static void draw_apart(void)
{
    uint64_t begins[4];
    for (int i = 0; i < 4; i++) {
        const uint64_t stamp = stamp_now();
        uint64_t random = 0;
        void *block = NULL;
        while (stamp_now() == stamp) {
        }
        block = touches_allocate(&random, 4096, 0, 1, LAST_RARITY);
        begins[i] = random;
        for (int j = 0; j < i; j++) {
            check(begins[j] != begins[i], "two threads draw the same");
        }
        check(block == NULL || touches_free(block), "it is not there");
    }
}

// Blocks that begin at more than a page's multiple, of which no other page stays mapped.
static void align_blocks(void)
{
    uint64_t random = 1;
    for (size_t alignment = 1; alignment <= (size_t)1 << 24; alignment *= 2) {
        struct touched_run runs[TOUCHES_RUNS];
        char *blocks[3];
        for (int i = 0; i < 3; i++) {
            const size_t size = (size_t)(i + 2) * 4096 + 1;
            char *block = blocks[i] = touches_allocate(&random, size, alignment, 1, 0);
            check(block != NULL && ((uintptr_t)block & (alignment - 1)) == 0, "not aligned");
            block[0] = block[size - 1] = 1;
            check(touches_look(block, size, runs) == 2 && runs[1].touched == 1, "other pages");
        }
        for (int i = 0; i < 3; i++) {
            unsigned char present[1];
            check(touches_free(blocks[i]), "it is not there");
            check(mincore(blocks[i], 4096, present) != 0, "it is still mapped");
        }
    }
    check(touches_allocate(&random, SIZE_MAX - 4096, 0, 1, 0) == NULL, "too large");
    check(touches_allocate(&random, 8192, SIZE_MAX / 2 + 1, 1, 0) == NULL, "too far");
}

// How rarely blocks are looked at, of kinds that do not count for each other.
static void count_samples(void)
{
    static const unsigned lasts[LAST_RARITY] = {8, 14, 20, 26, 32};
    const uint32_t site = sites_number(1), other = sites_number(2);
    check(site != 0 && other != 0 && site != other && sites_number(1) == site, "another number");
    unsigned counted = 0;
    for (unsigned rarity = 0; rarity < LAST_RARITY; rarity++) {
        for (; counted < lasts[rarity]; counted++) {
            check(sites_rarity(site, 8192) == rarity, "another rarity");
            sites_count_sample(site, 8192);
        }
    }
    for (int i = 0; i < 1000; i++) {
        check(sites_rarity(site, 8192) == LAST_RARITY, "the last rarity stays");
        sites_count_sample(site, 8192);
    }
    check(sites_rarity(site, 8192 + 2047) == LAST_RARITY, "a size of its class");
    check(sites_rarity(site, 8192 + 2048) == 0, "a size of the next class");
    check(sites_rarity(other, 8192) == 0, "another site");
    check(sites_rarity(site, SIZE_MAX) == 0, "the largest size");
    check(sites_rarity(0, 8192) == LAST_RARITY, "a site without a number");
    sites_count_sample(0, 8192);
}

// Lists of the kernel's clocks.
static void find_the_counter(void)
{
    static const struct {
        const char *names;
        bool has;
    } lists[] = {
            {"tsc kvm-clock acpi_pm \n", true},
            {"kvm-clock tsc acpi_pm \n", true},
            {"hpet tsc\n", true},
            {"tsc\n", true},
            {"hpet acpi_pm \n", false},
            {"tsc-early hpet \n", false},
            {"hyperv_clocksource_tsc_page xtsc\n", false},
            {"hpet tsc", false}, // which may be the beginning of another
            {"", false},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        check(stamp_names_counter(lists[i].names, strlen(lists[i].names)) == lists[i].has,
                lists[i].names);
    }
}

int main(void)
{
    exchange_buffers();
    look_at_touches();
    draw_apart();
    align_blocks();
    count_samples();
    find_the_counter();
    return 0;
}
