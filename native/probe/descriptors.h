/* The probe's open files, kept apart from the program's.
 *
 * A program may close all descriptors that it did not open itself, as daemons do, and get their
 * numbers for files of its own. So the thread that answers has a table of open files of its own, in
 * which nothing of the program's is: then no number means two things. Where the kernel gives none
 * (before 5.9, or a filter of system calls is against it), the probe's descriptors lie high in the
 * program's table, and each is looked at before each use: is it still the file that it was? What is
 * left then is the moment between the look and the use.
 */
#ifndef DBALLOC_PROBE_DESCRIPTORS_H
#define DBALLOC_PROBE_DESCRIPTORS_H

#include <stdbool.h>
#include <sys/types.h>

struct descriptor {
    int number;
    dev_t device;
    ino_t inode;
};

/* Gives this thread its own table, without anything in it but standard error and its like. */
void descriptors_begin(void);

/* Lets go of those too, once nothing is to be said about how the start went. */
void descriptors_settle(void);

/* Keeps a descriptor that was just opened, -1 for none; false with errno, and it is closed, if it
 * cannot be kept. */
bool descriptor_take(struct descriptor *descriptor, int number);

/* Whether that number is still the file that was taken. */
bool descriptor_is_ours(const struct descriptor *descriptor);

/* Closes it if it is still ours. */
void descriptor_close(struct descriptor *descriptor);

/* The program's standard error, as it is now; false if it has none. */
bool descriptor_of_standard_error(struct descriptor *descriptor);
void descriptor_of_standard_error_end(struct descriptor *descriptor);

#endif
