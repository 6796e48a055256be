// What a client of the probe's socket says: native/preload/listener.c, client.c; native/probe/control.c, snapshot.c.
#include "../../../native/probe/control.h"
#include "../../../native/preload/listener.h"
#include "../../../native/preload/preload.h"
#include "../../../native/probe/latency.h"
#include "../../../native/probe/live.h"
#include "../../../native/probe/probe.h"
#include "../../../native/probe/stacks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = 1 << 16 };

static char answer[64];
static size_t answered;

static void check(bool good)
{
    if (!good) {
        abort();
    }
}

// Reads all that is said, so that the probe need not wait.
static void *drain(void *end)
{
    static char bytes[1 << 16];
    answered = 0;
    for (;;) {
        const ssize_t got = recv(*(const int *)end, bytes, sizeof bytes, 0);
        if (got <= 0) {
            return NULL;
        }
        if (answered == 0) {
            memcpy(answer, bytes, (size_t)got < sizeof answer ? (size_t)got : sizeof answer);
        }
        answered += (size_t)got;
    }
}

static void begin(void)
{
    static bool begun;
    if (begun) {
        return;
    }
    begun = true;
    check(live_begin() && stacks_begin() && latency_begin());
    preload.owner = getpid();
    probe.first_interval = 512U << 10;
    for (uintptr_t i = 1; i < 100; i++) {
        const uintptr_t pcs[] = {i, i + 1, i + 2};
        struct stack *stack = stacks_of(pcs, 3, i % 2 == 0);
        stack->times[FREEING].calls = i;
        (void)latency_add(ALLOCATING, i * 100, i * 1000);
        live_insert(&(struct live_block){
                .address = i << 8, .usable = i, .bytes = i, .stack = stacks_id(stack)});
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int ends[2];
    pthread_t reader;
    begin();
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    struct descriptor descriptor;
    check(descriptor_take(&descriptor, ends[1]));
    // In two pieces, the first of so many bytes as the first one says.
    const size_t first = size > 0 && data[0] < size ? data[0] : 0;
    check(send(ends[0], data, first, MSG_NOSIGNAL) == (ssize_t)first);
    check(send(ends[0], data + first, size - first, MSG_NOSIGNAL) == (ssize_t)(size - first));
    check(shutdown(ends[0], SHUT_WR) == 0);
    check(pthread_create(&reader, NULL, drain, &ends[0]) == 0);
    listener_serve(descriptor);
    descriptor_close(&descriptor);
    check(pthread_join(reader, NULL) == 0);
    check(close(ends[0]) == 0);
    check(answered == 0 || memcmp(answer, "ok\n", 3) == 0 || memcmp(answer, "error ", 6) == 0 ||
            memcmp(answer, "DBALLOCP", 8) == 0);
    check(probe.interval == 0 ||
            (probe.interval >= LEAST_INTERVAL && probe.interval <= MOST_INTERVAL));
    return 0;
}
