/* One recording: its file, and what goes into it. Only one thread uses it, the writer's, or at the
 * program's end the one that ends it. */
#ifndef DBALLOC_TRACE_SESSION_H
#define DBALLOC_TRACE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

/* Why a recording ended. */
extern const char SESSION_EXIT[], SESSION_ASKED[], SESSION_LIMIT[], SESSION_DISK[];

/* What it has done, for whoever asks, at any time. `ended_by`: NULL while nothing has ended. */
struct session_status {
    _Atomic bool is_open;
    _Atomic uint64_t events, dropped, bytes, limit, threads;
    _Atomic uint64_t began, ended; /* ns, CLOCK_MONOTONIC */
    _Atomic(const char *) ended_by;
};

extern struct session_status session_status;

/* Bytes that a file may have: of the next recording, and of those after it. */
extern _Atomic uint64_t session_next_limit, session_usual_limit;

/* Notes that a recording is on from the program's beginning, which is now. */
void session_from_start(void);

/* Makes the file and writes its head. False after setting `ended_by`; `why`, of LONGEST_WHY bytes,
 * says what is wrong. */
enum { LONGEST_WHY = 512 };
bool session_open(char why[LONGEST_WHY]);

/* Writes what the threads have handed over; with `all`, what they have in their buffers, too. False
 * if the recording has to end, for `session_failure`. */
bool session_drain(bool all);
const char *session_failure(void);

/* Whether the file has grown so far that what the threads have may only just go into it. */
bool session_is_near_limit(void);

/* Writes which stamp it is. */
bool session_write_clock(void);

/* Writes a mark: its name and figures in a line. */
bool session_write_mark(const char *line);

/* Writes the end, and closes the file. */
void session_close(const char *reason);

/* The path of the last file; empty if there is none. */
const char *session_path(void);

#endif
