/* Our messages on the program's standard error: one line, "NAME: WHY; WHAT TO DO". */
#ifndef DBALLOC_PRELOAD_MESSAGE_H
#define DBALLOC_PRELOAD_MESSAGE_H

/* Neither allocates nor keeps its arguments; errno stays. */
void message_write(const char *why, const char *what_to_do);

/* Prints it, and ends the program: for errors after which it cannot go on. */
__attribute__((noreturn)) void message_abort(const char *why, const char *what_to_do);

#endif
