/* Every wait here has an end: a client that sends nothing, or a byte now and then, or does not
 * read, is dropped. */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"

static const uint64_t MILLISECOND = 1000000, MOMENT = 200000000;
/* Time limits: for the line, from clients that may ask and from others; for a part of the answer,
 * and for all of it. */
static const uint64_t LINE = 2000 * MILLISECOND, LINE_OF_OTHERS = 100 * MILLISECOND,
                      PART = 10000 * MILLISECOND, ANSWER = 60000 * MILLISECOND;
/* How often to check whether the program has closed our descriptor. */
static const uint64_t LOOK = 200 * MILLISECOND;

static bool is_welcome(int number)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(number, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid());
}

void client_begin(struct client *client, struct descriptor descriptor)
{
    client->descriptor = descriptor;
    client->welcome = is_welcome(descriptor.number);
    client->deadline = clock_ns(CLOCK_MONOTONIC) + (client->welcome ? LINE : LINE_OF_OTHERS);
}

/* Whether it can be read from, or written to, before then. */
static bool wait_for(const struct client *client, short events, uint64_t deadline)
{
    for (;;) {
        const uint64_t now = clock_ns(CLOCK_MONOTONIC);
        if (now >= deadline)
            return false;
        const uint64_t left = deadline - now < LOOK ? deadline - now : LOOK;
        struct pollfd socket = {.fd = client->descriptor.number, .events = events};
        const int ready = poll(&socket, 1, (int)(left / MILLISECOND) + 1);
        if (!descriptor_is_ours(&client->descriptor))
            return false; /* the program has closed it */
        if (ready > 0)
            return true; /* the next call reports an error, too */
        if (ready < 0 && errno != EINTR)
            return false;
    }
}

static bool may_pass(int error)
{
    return error == EINTR || error == EAGAIN || error == EWOULDBLOCK;
}

bool client_read_line(struct client *client, char line[LONGEST_LINE])
{
    size_t length = 0;
    while (length < LONGEST_LINE && wait_for(client, POLLIN, client->deadline)) {
        const ssize_t got =
                recv(client->descriptor.number, line + length, LONGEST_LINE - length, 0);
        if (got < 0 && may_pass(errno))
            continue;
        if (got <= 0)
            return false;
        length += (size_t)got;
        char *end = memchr(line, '\n', length);
        if (end != NULL) {
            *end = '\0';
            client->deadline = clock_ns(CLOCK_MONOTONIC) + ANSWER;
            return true;
        }
    }
    return false;
}

bool client_send(struct client *client, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    while (length > 0) {
        const uint64_t patient = clock_ns(CLOCK_MONOTONIC) + PART;
        if (!wait_for(client, POLLOUT, patient < client->deadline ? patient : client->deadline))
            return false;
        const ssize_t sent = send(client->descriptor.number, at, length, MSG_NOSIGNAL);
        if (sent < 0 && may_pass(errno))
            continue;
        if (sent <= 0)
            return false;
        at += sent;
        length -= (size_t)sent;
    }
    return true;
}

void client_answer(struct client *client, const char *text)
{
    (void)client_send(client, text, strlen(text));
}

void client_refuse(struct client *client, const char *text)
{
    client->deadline = clock_ns(CLOCK_MONOTONIC) + MOMENT;
    client_answer(client, text);
}
