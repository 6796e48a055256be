#include "build_id.h"

#include <elf.h>
#include <link.h>
#include <string.h>

static size_t padded(size_t size)
{
    return (size + 3) / 4 * 4;
}

static size_t hexadecimal(const unsigned char *bytes, size_t count, char *digits)
{
    static const char digit[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        digits[2 * i] = digit[bytes[i] >> 4];
        digits[2 * i + 1] = digit[bytes[i] & 15];
    }
    return 2 * count;
}

/* elf(5): a note is its two lengths and its kind, its name and its text, each padded to four bytes.
 */
size_t notes_build_id(const unsigned char *notes, size_t size, char digits[2 * LONGEST_BUILD_ID])
{
    ElfW(Nhdr) note;
    while (size >= sizeof note) {
        memcpy(&note, notes, sizeof note);
        const unsigned char *name = notes + sizeof note;
        const size_t left = size - sizeof note;
        const size_t name_size = padded(note.n_namesz);
        if (name_size > left || note.n_descsz > left - name_size)
            return 0;
        const unsigned char *text = name + name_size;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof "GNU" &&
                memcmp(name, "GNU", sizeof "GNU") == 0 && note.n_descsz <= LONGEST_BUILD_ID)
            return hexadecimal(text, note.n_descsz, digits);
        const size_t text_size = padded(note.n_descsz);
        if (text_size > left - name_size)
            return 0;
        notes = text + text_size;
        size = left - name_size - text_size;
    }
    return 0;
}
