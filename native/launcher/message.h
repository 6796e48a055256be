/* What the launcher says when it cannot go on: one line on standard error. */
#ifndef DBALLOC_LAUNCHER_MESSAGE_H
#define DBALLOC_LAUNCHER_MESSAGE_H

/* Cannot be run as asked; as dballoc's own exit status. */
enum { EXIT_REFUSED = 2 };

/* Prints "dballoc: " and the line, for which printf's rules hold. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

#endif
