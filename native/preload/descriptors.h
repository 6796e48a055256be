/* Our own open files, kept apart from the program's.
 *
 * A program may close all descriptors that it did not open itself, as daemons do, and get their
 * numbers for files of its own. So the thread that answers requests has its own table of open
 * files, which holds none of the program's: no number can mean two files. Where the kernel refuses
 * that (before 5.9, or because of a filter of system calls), our descriptors are high in
 * the program's table, and each is checked before each use: is it still the same file? A gap
 * remains between the check and the use.
 */
#ifndef DBALLOC_PRELOAD_DESCRIPTORS_H
#define DBALLOC_PRELOAD_DESCRIPTORS_H

#include <stdbool.h>
#include <sys/types.h>

struct descriptor {
    int number;
    dev_t device;
    ino_t inode;
};

/* Gives this thread its own table, without anything in it but standard error and its like. */
void descriptors_begin(void);

/* Whether this thread has a table of its own. */
bool descriptors_are_apart(void);

/* Closes those too, once nothing more has to be reported about the start. */
void descriptors_settle(void);

/* Keeps a descriptor that was just opened, -1 for none; false with errno, and it is closed, if it
 * cannot be kept. */
bool descriptor_take(struct descriptor *descriptor, int number);

/* Whether that number is still the same file. */
bool descriptor_is_ours(const struct descriptor *descriptor);

/* Closes it if it is still ours. */
void descriptor_close(struct descriptor *descriptor);

/* The program's standard error, as it is now; false if it has none. */
bool descriptor_of_standard_error(struct descriptor *descriptor);
void descriptor_of_standard_error_end(struct descriptor *descriptor);

#endif
