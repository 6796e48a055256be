/* A snapshot that the program leaves when it ends: DIRECTORY/PID.snapshot. */
#ifndef DBALLOC_PROBE_AT_EXIT_H
#define DBALLOC_PROBE_AT_EXIT_H

/* Whether one was asked for, by DBALLOC_PROBE_AT_EXIT=1 in the environment: before there are
 * threads. */
void at_exit_begin(void);

/* Writes it, if one was asked for. */
void at_exit_write(void);

#endif
