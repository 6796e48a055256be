// What clients of the recorder's socket say while a program allocates: native/preload/listener.c,
// client.c; native/trace/control.c, session.c, recorder.c. Each line of the input is a client's; of its
// bytes, calls of malloc's functions are made before it. What is written has to be whole chunks.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../../native/preload/listener.h"
#include "../../../native/preload/own_thread.h"
#include "../../../native/preload/preload.h"
#include "../../../native/trace/chunk.h"
#include "../../../native/trace/control.h"
#include "../../../native/trace/recorder.h"
#include "../../../native/trace/writer.h"

enum { MOST_FILE = (1 << 20) + 65536 };

const char preload_name[] = "fuzz", preload_thread_name[] = "fuzz";

static void check(bool good, const char *what)
{
    if (!good) {
        (void)fprintf(stderr, "%s\n", what);
        abort();
    }
}

bool preload_set_busy(bool busy)
{
    (void)busy;
    return false;
}

bool preload_hide_creation(bool hidden)
{
    return hidden;
}

bool preload_is_active(void)
{
    return true;
}

void preload_early_block(const void *block)
{
    (void)block;
}

void preload_settled(void)
{
}

void preload_finish(void)
{
}

bool recorder_begin(void)
{
    return false;
}

void writer_wake(void)
{
}

// There is no thread but this one.
bool own_thread_start(void *(*run)(void *))
{
    (void)run;
    return true;
}

static void check_file(void)
{
    static unsigned char bytes[MOST_FILE];
    const int file = open(session_path(), O_RDONLY);
    check(file >= 0, "no file");
    const ssize_t length = read(file, bytes, sizeof bytes);
    check(length > 0 && length < MOST_FILE, "too long a file");
    check(close(file) == 0 && unlink(session_path()) == 0, "cannot remove the file");
    size_t at = 0;
    struct chunk_header header = {0};
    for (uint64_t number = 0; at < (size_t)length; number++) {
        check((size_t)length - at >= sizeof header, "half a header");
        memcpy(&header, bytes + at, sizeof header);
        at += sizeof header;
        check(header.magic == CHUNK_MAGIC && header.number == number, "no chunk");
        check(header.length <= (size_t)length - at, "half a chunk");
        check(header.checksum == chunk_checksum(bytes + at, header.length), "another checksum");
        at += header.length;
    }
    check(header.kind == CHUNK_END, "no end");
}

static void stop(void)
{
    atomic_fetch_add(&recording.generation, 1);
    const char *reason = session_drain(true) ? SESSION_ASKED : session_failure();
    session_close(reason);
    check_file();
}

// As the writer's thread does, in this one.
bool writer_ask(enum writer_request request, const char *line, char why[LONGEST_WHY])
{
    const bool is_on = atomic_load(&session_status.is_open);
    (void)snprintf(why, LONGEST_WHY, "no");
    if (request == WRITER_START) {
        if (is_on || !session_open(why))
            return false;
        atomic_fetch_add(&recording.generation, 1);
        return true;
    }
    if (!is_on)
        return false;
    if (request == WRITER_MARK) {
        check(strlen(line) < LONGEST_LINE && strchr(line, '\n') == NULL, "not a line");
        return session_write_mark(line);
    }
    stop();
    return true;
}

static void begin(void)
{
    static bool begun;
    if (begun) {
        return;
    }
    begun = true;
    check(buffers_begin() && threads_begin(), "no memory");
    stamp_begin();
    recorder_look_at_processor();
    preload.owner = getpid();
}

static void *block_of(uint64_t number)
{
    return (void *)(uintptr_t)((number + 1) << 4);
}

// Calls with any addresses and sizes: only their numbers are looked at.
static void make_call(uint64_t number)
{
    const uint64_t place = number >> 3;
    switch (number % 6) {
    case 0:
        (void)record_allocation(MALLOC, block_of(place), place % 8192);
        break;
    case 1:
        record_free(FREE, block_of(place), 0);
        break;
    case 2:
        record_free(FREE_SIZED, block_of(place), place);
        break;
    case 3:
        record_special(ALIGNED, block_of(place), place, 1U << (place % 20), (uint32_t)place);
        break;
    case 4:
        record_realloc(stamp_now(), block_of(place), block_of(place >> 8), place, 0);
        break;
    default:
        record_realloc(stamp_now(), NULL, block_of(place), place, 1);
    }
}

static void make_calls(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        uint64_t number = 0;
        memcpy(&number, data + i, size - i < sizeof number ? size - i : sizeof number);
        make_call(number);
    }
}

static void serve(const uint8_t *line, size_t length)
{
    int ends[2];
    char answer[16384];
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0, "no sockets");
    struct descriptor descriptor;
    check(descriptor_take(&descriptor, ends[1]), "no descriptor");
    check(send(ends[0], line, length, MSG_NOSIGNAL) == (ssize_t)length, "cannot send");
    check(shutdown(ends[0], SHUT_WR) == 0, "cannot end");
    listener_serve(descriptor);
    descriptor_close(&descriptor);
    const ssize_t answered = recv(ends[0], answer, sizeof answer - 1, 0);
    answer[answered > 0 ? answered : 0] = '\0';
    check(answered <= 0 || strncmp(answer, "ok\n", 3) == 0 || strncmp(answer, "error ", 6) == 0,
            "neither ok nor an error");
    check(strncmp(answer, "error ", 6) != 0 || strchr(answer, '\n') == answer + answered - 1,
            "an error that is not one line");
    check(close(ends[0]) == 0, "cannot close");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char directory[] = "/tmp/dballoc-fuzz-XXXXXX";
    begin();
    check(mkdtemp(directory) != NULL, "no directory");
    memcpy(preload.directory, directory, sizeof directory);
    atomic_store(&session_usual_limit, LEAST_LIMIT);
    atomic_store(&session_next_limit, LEAST_LIMIT);
    for (size_t at = 0; at < size;) {
        const uint8_t *newline = memchr(data + at, '\n', size - at);
        const size_t length = newline != NULL ? (size_t)(newline - data) + 1 - at : size - at;
        make_calls(data + at, length);
        serve(data + at, length);
        at += length;
        /* A larger one is only more of the same. */
        if (atomic_load(&session_next_limit) > LEAST_LIMIT)
            atomic_store(&session_next_limit, LEAST_LIMIT);
    }
    if (atomic_load(&session_status.is_open)) {
        stop();
    }
    check(rmdir(directory) == 0, "a file is left");
    return 0;
}
