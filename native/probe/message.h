/* What the probe has to say, on the program's standard error: one line, "dballoc probe: WHY; WHAT
 * TO DO". */
#ifndef DBALLOC_PROBE_MESSAGE_H
#define DBALLOC_PROBE_MESSAGE_H

/* Neither allocates nor keeps what is handed in; errno stays. */
void message_write(const char *why, const char *what_to_do);

/* Says it, and ends the program: for what leaves no way on. */
__attribute__((noreturn)) void message_abort(const char *why, const char *what_to_do);

#endif
