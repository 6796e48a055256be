/* JSON in a buffer of fixed size. What does not fit is left out, piece by piece, and the text says
 * so at its end. */
#ifndef DBALLOC_UDF_TEXT_H
#define DBALLOC_UDF_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *bytes;
    size_t size;
    size_t length;
    bool comma; /* a value stands before, at this level */
    bool full;  /* something did not fit since the last text_keep */
    bool cut;   /* something was left out */
};

/* Where a piece begins, for text_keep. */
struct text_mark {
    size_t length;
    bool comma;
};

/* `bytes` stay the caller's. */
void text_begin(struct text *text, char *bytes, size_t size);

/* Every value takes a key in an object, and NULL in an array. What was opened, and kept, can always
 * be closed. */
void text_open(struct text *text, const char *key, char bracket);
void text_close(struct text *text, char bracket);
void text_number(struct text *text, const char *key, uint64_t value);
void text_string(struct text *text, const char *key, const char *value);

/* A string that comes in pieces. */
void text_string_open(struct text *text, const char *key);
void text_string_add(struct text *text, const char *bytes, size_t length);
void text_string_close(struct text *text);

/* Keep what was written since `mark` if all of it fits; else take it back, note that it is missing,
 * and return false. */
struct text_mark text_here(const struct text *text);
bool text_keep(struct text *text, struct text_mark mark);

/* Close the outermost object, with "cut": true if something is missing. The text has no NUL at its
 * end. It is empty if the buffer is too small for any. */
void text_end(struct text *text);

#endif
