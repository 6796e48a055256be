/* What the engine says: one JSON document on its standard output, or one line of refusal. */
#ifndef DBALLOC_REPLAY_REPORT_H
#define DBALLOC_REPLAY_REPORT_H

/* Exit statuses. */
enum { STATUS_REFUSED = 2, STATUS_FAULT = 3, STATUS_FAILED = 4 };

/* What cannot be replayed as asked: one line, exit status 2. */
_Noreturn void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What the machine did not give: the same with error_text(error), exit status 4: 1 is what a
 * malloc ends a process with. */
_Noreturn void fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What the replay came to: a document with the fault alone, exit status 3. Any thread may. */
_Noreturn void report_fault(const char *kind, const char *text);
/* A document with all figures. */
struct figures;
void report_figures(const struct figures *figures);

#endif
