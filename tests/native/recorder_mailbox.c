// What is asked of the writer while it hangs in the file, and after: the writer alone, with a file
// that the test holds up, and a clock that the test turns forward for the thread that asks.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "descriptors.h"
#include "message.h"
#include "preload.h"
#include "recorder.h"
#include "writer.h"

static const uint64_t SECOND = 1000000000;

const char SESSION_EXIT[] = "exit", SESSION_ASKED[] = "asked", SESSION_LIMIT[] = "limit",
           SESSION_DISK[] = "disk";
struct recording recording;
struct session_status session_status;

static _Atomic bool holds_drain, holds_mark;
static _Atomic bool is_held, is_interrupted;
static _Atomic int closings;
static char marks[256];

// Of the thread that asks.
static _Thread_local bool is_impatient;
static _Thread_local time_t seconds_ahead;
static _Thread_local int calls_to_interruption;

static void check(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

// A signal's handler that ends the program, while its thread waits for an answer.
static void finish_in_handler(void)
{
    const uint64_t began = clock_ns(CLOCK_MONOTONIC);
    is_interrupted = true;
    writer_finish();
    check(closings == 1, "it has no end");
    check(clock_ns(CLOCK_MONOTONIC) - began < 10 * SECOND, "it waits for what is over");
}

// In place of the C library's. Time runs ahead while the writer is held, and not before.
int clock_gettime(clockid_t clock, struct timespec *now)
{
    const int result = (int)syscall(SYS_clock_gettime, clock, now);
    seconds_ahead += is_impatient && is_held;
    now->tv_sec += seconds_ahead;
    if (calls_to_interruption > 0 && --calls_to_interruption == 0)
        finish_in_handler();
    return result;
}

static void hold(_Atomic bool *holds)
{
    while (*holds) {
        is_held = true;
        usleep(1000);
    }
    is_held = false;
}

static void wait_until_held(void)
{
    while (!is_held) {
        usleep(1000);
    }
}

bool session_open(char why[LONGEST_WHY])
{
    (void)why;
    session_status.is_open = true;
    return true;
}

bool session_drain(bool all)
{
    (void)all;
    hold(&holds_drain);
    return true;
}

const char *session_failure(void)
{
    return SESSION_DISK;
}

bool session_is_near_limit(void)
{
    return false;
}

bool session_write_clock(void)
{
    return true;
}

bool session_write_mark(const char *line)
{
    hold(&holds_mark);
    strcat(strcat(marks, line), " ");
    return true;
}

void session_close(const char *reason)
{
    check(reason == SESSION_EXIT, "another reason");
    while (!is_interrupted) {
        usleep(1000);
    }
    usleep(50000); // so that the other waits, too
    closings++;
    session_status.is_open = false;
}

bool preload_set_busy(bool busy)
{
    return busy;
}

bool preload_hide_creation(bool hidden)
{
    return hidden;
}

void message_write(const char *why, const char *what_to_do)
{
    fprintf(stderr, "%s; %s\n", why, what_to_do);
    exit(1);
}

void descriptors_begin(void)
{
}

void descriptors_settle(void)
{
}

static bool mark(const char *name, bool impatiently)
{
    char why[LONGEST_WHY];
    seconds_ahead = 0;
    is_impatient = impatiently;
    const bool done = writer_ask(WRITER_MARK, name, why);
    is_impatient = false;
    seconds_ahead = 0;
    return done;
}

int main(void)
{
    recording.generation = 1;
    holds_drain = true;
    writer_begin();
    wait_until_held();
    check(!mark("before-it-began", true), "an answer from a writer that hangs");
    holds_drain = false;
    check(mark("second", false), "no answer after one that was not begun");

    holds_mark = true;
    check(!mark("begun", true), "an answer from a writer that hangs in the request");
    wait_until_held();
    holds_mark = false;
    check(mark("fourth", false), "no answer after one that was abandoned");
    check(strcmp(marks, "second begun fourth ") == 0, marks);

    calls_to_interruption = 2; // by the second one it has been asked
    writer_finish();
    check(is_interrupted, "nothing came between");
    return 0;
}
