/* The thread that writes recordings to their files, and what it can be asked. */
#ifndef DBALLOC_TRACE_WRITER_H
#define DBALLOC_TRACE_WRITER_H

#include <stdbool.h>

#include "session.h"

enum writer_request { WRITER_START, WRITER_STOP, WRITER_MARK, WRITER_EXIT };

/* Starts the thread. */
void writer_begin(void);

/* Has it look now: a thread finds no buffer. */
void writer_wake(void);

/* Has it do something, and waits for that a bounded time. `line`: of a mark. False with a reason in
 * `why`. */
bool writer_ask(enum writer_request request, const char *line, char why[LONGEST_WHY]);

/* Ends the recording as the program ends; without the thread where that has not begun. */
void writer_finish(void);

#endif
