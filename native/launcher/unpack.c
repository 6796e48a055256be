#include "unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "message.h"

/* payload.S */
extern const unsigned char payload_start[];
extern const unsigned char payload_end[];

/* A header of the archive, as POSIX's ustar lays it out (IEEE Std 1003.1, pax, "ustar Interchange
 * Format"); a file's bytes follow it, filled up to whole blocks. */
struct header {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char checksum[8];
    char type;
    char link[100];
    char magic[6];
    char version[2];
    char user[32];
    char group[32];
    char major[8];
    char minor[8];
    char prefix[155];
    char padding[12];
};

enum { BLOCK = 512, BUFFER = 1 << 16, TYPE_FILE = '0', TYPE_DIRECTORY = '5' };
_Static_assert(sizeof(struct header) == BLOCK, "a header is a block");

struct reader {
    ZSTD_DStream *stream;
    ZSTD_inBuffer input;
};

enum outcome { OUTCOME_OK, OUTCOME_ERRNO, OUTCOME_BROKEN };

/* Exactly so many bytes of the archive. */
static bool read_bytes(struct reader *reader, void *bytes, size_t count)
{
    ZSTD_outBuffer output = {.dst = bytes, .size = count, .pos = 0};
    while (output.pos < count) {
        const size_t before = output.pos;
        const size_t left = ZSTD_decompressStream(reader->stream, &output, &reader->input);
        if (ZSTD_isError(left))
            return false;
        if (output.pos == before && reader->input.pos == reader->input.size)
            return false;
    }
    return true;
}

/* The rest of the compressed frame, which ends with the checksum of all that was unpacked. */
static bool read_to_end(struct reader *reader)
{
    static char rest[BUFFER];
    while (true) {
        ZSTD_outBuffer output = {.dst = rest, .size = sizeof rest, .pos = 0};
        const size_t before = reader->input.pos;
        const size_t left = ZSTD_decompressStream(reader->stream, &output, &reader->input);
        if (ZSTD_isError(left))
            return false;
        if (left == 0)
            return reader->input.pos == reader->input.size;
        if (output.pos == 0 && reader->input.pos == before)
            return false;
    }
}

/* An octal number, which ends with a NUL, a space or its field. */
static uint64_t parse_octal(const char *field, size_t length)
{
    uint64_t value = 0;
    for (size_t i = 0; i < length && field[i] >= '0' && field[i] <= '7'; i++)
        value = value * 8 + (uint64_t)(field[i] - '0');
    return value;
}

/* PREFIX/NAME; false unless it is a relative path without "..". */
static bool join_name(const struct header *header, char *path, size_t room)
{
    const size_t prefix = strnlen(header->prefix, sizeof header->prefix);
    const size_t name = strnlen(header->name, sizeof header->name);
    if (prefix + name + 2 > room || name == 0)
        return false;
    char *at = mempcpy(path, header->prefix, prefix);
    if (prefix > 0)
        *at++ = '/';
    at = mempcpy(at, header->name, name);
    *at = '\0';
    return *path != '/' && strstr(path, "..") == NULL;
}

static bool write_bytes(int file, const char *bytes, size_t count)
{
    while (count > 0) {
        const ssize_t written = write(file, bytes, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        bytes += written;
        count -= (size_t)written;
    }
    return true;
}

static enum outcome unpack_file(
        struct reader *reader, int directory, const char *path, const struct header *header)
{
    static char buffer[BUFFER];
    const mode_t mode = (mode_t)parse_octal(header->mode, sizeof header->mode) & 0777;
    const int file =
            openat(directory, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (file < 0)
        return OUTCOME_ERRNO;
    enum outcome outcome = OUTCOME_OK;
    uint64_t left = parse_octal(header->size, sizeof header->size);
    const size_t padding = (size_t)(-left % BLOCK);
    while (left > 0 && outcome == OUTCOME_OK) {
        const size_t count = left < BUFFER ? (size_t)left : BUFFER;
        if (!read_bytes(reader, buffer, count)) {
            outcome = OUTCOME_BROKEN;
        } else if (!write_bytes(file, buffer, count)) {
            outcome = OUTCOME_ERRNO;
        }
        left -= count;
    }
    if (outcome == OUTCOME_OK && !read_bytes(reader, buffer, padding))
        outcome = OUTCOME_BROKEN;
    const int error = errno;
    if (close(file) != 0 && outcome == OUTCOME_OK)
        return OUTCOME_ERRNO;
    errno = error;
    return outcome;
}

static enum outcome unpack_all(struct reader *reader, int directory)
{
    struct header header;
    char path[sizeof header.prefix + sizeof header.name + 2];
    while (true) {
        if (!read_bytes(reader, &header, sizeof header))
            return OUTCOME_BROKEN;
        if (header.name[0] == '\0') /* a block of zeros ends the archive */
            return read_to_end(reader) ? OUTCOME_OK : OUTCOME_BROKEN;
        if (!join_name(&header, path, sizeof path))
            return OUTCOME_BROKEN;
        if (header.type == TYPE_DIRECTORY) {
            if (mkdirat(directory, path, 0755) != 0)
                return OUTCOME_ERRNO;
        } else if (header.type == TYPE_FILE) {
            const enum outcome outcome = unpack_file(reader, directory, path, &header);
            if (outcome != OUTCOME_OK)
                return outcome;
        } else {
            return OUTCOME_BROKEN;
        }
    }
}

bool unpack(int directory, const char *path)
{
    struct reader reader = {
            .stream = ZSTD_createDStream(),
            .input = {.src = payload_start, .size = (size_t)(payload_end - payload_start)},
    };
    if (reader.stream == NULL || ZSTD_isError(ZSTD_initDStream(reader.stream))) {
        complain("there is no memory to unpack with");
        return false;
    }
    const enum outcome outcome = unpack_all(&reader, directory);
    const int error = errno;
    ZSTD_freeDStream(reader.stream);
    if (outcome == OUTCOME_BROKEN)
        complain("this file is damaged; compare it with its SHA256SUMS, and fetch it again");
    if (outcome == OUTCOME_ERRNO) {
        const unsigned long long size =
                ZSTD_getFrameContentSize(payload_start, (size_t)(payload_end - payload_start));
        complain("cannot unpack into %s: %s; set TMPDIR to a directory with %llu MiB to spare",
                path, strerror(error), (size >> 20) + 1);
    }
    return outcome == OUTCOME_OK;
}
