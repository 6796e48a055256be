#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Files of one process in a directory, and what is kept free for the last chunk. */
enum { MOST_FILES = 1000, RESERVE = 16 << 10 };

bool file_open(struct file *file, const char *directory, int pid, uint64_t limit)
{
    *file = (struct file){.limit = limit, .descriptor = {.number = -1}};
    for (int i = 1; i <= MOST_FILES; i++) {
        char which[16] = "";
        if (i > 1)
            (void)snprintf(which, sizeof which, "-%d", i);
        const int length =
                snprintf(file->path, sizeof file->path, "%s/%d%s.recording", directory, pid, which);
        if (length < 0 || (size_t)length >= sizeof file->path) {
            file->error = ENAMETOOLONG;
            return false;
        }
        const int number = open(file->path,
                O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
        if (descriptor_take(&file->descriptor, number))
            return true;
        if (errno != EEXIST)
            break;
    }
    file->error = errno;
    return false;
}

/* Appends all of it; false with `error`. */
static bool append(struct file *file, struct iovec part[2])
{
    struct iovec *at = part;
    int parts = 2;
    while (parts > 0) {
        if (!descriptor_is_ours(&file->descriptor)) { /* the program has closed it */
            file->error = EBADF;
            return false;
        }
        const ssize_t count = writev(file->descriptor.number, at, parts);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0) {
            file->error = count < 0 ? errno : EIO;
            return false;
        }
        size_t left = (size_t)count;
        while (parts > 0 && left >= at->iov_len) {
            left -= at->iov_len;
            at++;
            parts--;
        }
        if (parts > 0) {
            at->iov_base = (char *)at->iov_base + left;
            at->iov_len -= left;
        }
    }
    return true;
}

static bool append_chunk(
        struct file *file, struct chunk_header *header, const void *payload, size_t length)
{
    header->magic = CHUNK_MAGIC;
    header->version = CHUNK_VERSION;
    header->length = (uint32_t)length;
    header->checksum = chunk_checksum(payload, length);
    header->number = file->chunks;
    /* writev(2) takes what it only reads as if it wrote there. */
    union {
        const void *read;
        void *base;
    } bytes = {.read = payload};
    struct iovec part[2] = {{.iov_base = header, .iov_len = sizeof *header},
            {.iov_base = bytes.base, .iov_len = length}};
    if (!append(file, part)) {
        const int error = file->error;
        if (descriptor_is_ours(&file->descriptor) &&
                ftruncate(file->descriptor.number, (off_t)file->size) != 0) {
            file->error = error; /* a reader leaves out what is no whole chunk */
        }
        return false;
    }
    file->size += sizeof *header + length;
    file->chunks++;
    return true;
}

bool file_append(struct file *file, struct chunk_header *header, const void *payload, size_t length)
{
    if (file->error != 0 || file->is_full)
        return false;
    if (file->size + sizeof *header + length + RESERVE > file->limit) {
        file->is_full = true;
        return false;
    }
    return append_chunk(file, header, payload, length);
}

bool file_append_last(
        struct file *file, struct chunk_header *header, const void *payload, size_t length)
{
    return append_chunk(file, header, payload, length);
}

void file_close(struct file *file)
{
    descriptor_close(&file->descriptor);
}
