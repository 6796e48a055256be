// Threads that find no empty buffer: they wait while one may come, and no longer, and cannot be
// cancelled meanwhile. The writer is the test's own, and so is the clock: each time that the writer is
// woken is a millisecond.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "listener.h"
#include "message.h"
#include "preload.h"
#include "recorder.h"
#include "writer.h"

enum { MILLISECOND = 1000000 };

const char preload_name[] = "waiting";
struct preload preload;

static long now_ns = 5000000000;
static int wakes;
static void (*on_wake)(void);
static struct buffer *queued;

static void check(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

// In place of the C library's.
int clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){.tv_sec = now_ns / 1000000000, .tv_nsec = now_ns % 1000000000};
    return 0;
}

bool recorder_begin(void)
{
    return false;
}

void writer_wake(void)
{
    wakes++;
    now_ns += MILLISECOND;
    if (on_wake != NULL)
        on_wake();
}

void listener_start(void)
{
}

void listener_consider(bool is_first_thread)
{
    (void)is_first_thread;
}

// The writer has what is queued, and is done with it the third time.
static void write_slowly(void)
{
    if (wakes == 1) {
        queued = buffers_take_queue();
        check(queued != NULL && queued->next == NULL, "not one is queued");
    } else if (wakes == 3) {
        buffers_give_back(queued);
    }
    buffers_looked_at_all();
}

// A thread's first event. Returns the buffer that it is in.
static void *record(void *is_cancelled)
{
    if (is_cancelled != NULL) {
        (void)pthread_cancel(pthread_self());
    }
    record_call(recorder_generation(), MALLOC, stamp_now(), &preload, 100);
    check(thread.busy == 0, "it is still in the recorder");
    if (is_cancelled != NULL) {
        message_write("nothing", "do nothing");
    }
    check(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0, "no state");
    return thread.buffer;
}

static void *record_in_a_thread(void *is_cancelled)
{
    pthread_t created;
    void *result = NULL;
    wakes = 0;
    check(pthread_create(&created, NULL, record, is_cancelled) == 0, "no thread");
    check(pthread_join(created, &result) == 0, "it cannot be joined");
    return result;
}

int main(void)
{
    preload.owner = getpid();
    stamp_begin();
    recorder_look_at_processor();
    check(buffers_begin() && threads_begin(), "no memory");
    recording.generation = 1;
    struct buffer *last = NULL;
    for (struct buffer *next = buffers_take(); next != NULL; next = buffers_take()) {
        last = next;
    }

    // All are of threads that live.
    on_wake = buffers_looked_at_all;
    check(record_in_a_thread(NULL) == NULL && wakes == 1, "it waits for what cannot come");
    check(record_in_a_thread(NULL) == NULL && wakes == 0, "it asks what is just known");
    now_ns += 1000L * MILLISECOND; // threads may have ended meanwhile
    check(record_in_a_thread(NULL) == NULL && wakes == 1, "it does not ask again");

    // One is the writer's, which hangs.
    buffers_hand_over(last);
    on_wake = NULL;
    check(record_in_a_thread(NULL) == NULL && wakes > 100, "it does not wait for the writer");

    on_wake = write_slowly;
    last = record_in_a_thread(NULL);
    check(last != NULL && wakes == 3, "it has not got what was given back");

    buffers_hand_over(last);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const int errors = dup(STDERR_FILENO);
    check(dup2(nowhere, STDERR_FILENO) == STDERR_FILENO, "no file");
    last = record_in_a_thread(&preload);
    check(dup2(errors, STDERR_FILENO) == STDERR_FILENO, "no file");
    check(last != PTHREAD_CANCELED, "malloc is a cancellation point");
    check(last != NULL && wakes == 3, "it has not got what was given back, cancelled");
    return 0;
}
