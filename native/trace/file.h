/* The file of a recording: whole chunks, appended until it must not or cannot grow. */
#ifndef DBALLOC_TRACE_FILE_H
#define DBALLOC_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chunk.h"
#include "descriptors.h"

struct file {
    struct descriptor descriptor;
    uint64_t size, limit; /* bytes */
    uint64_t chunks;
    int error;       /* errno of what ended it, 0 while nothing has */
    bool is_full;    /* the limit has been reached */
    char path[4200]; /* for messages and for whoever asks */
};

/* Makes DIRECTORY/PID.recording, or PID-2.recording and so on where there is one already. False with
 * `error`. */
bool file_open(struct file *file, const char *directory, int pid, uint64_t limit);

/* Appends a chunk, whose magic, version, length, checksum and number are filled in here. False if it
 * is not there: what was written of it is cut off again. */
bool file_append(
        struct file *file, struct chunk_header *header, const void *payload, size_t length);

/* Appends the last one, for which there is room beyond the limit. */
bool file_append_last(
        struct file *file, struct chunk_header *header, const void *payload, size_t length);

void file_close(struct file *file);

#endif
