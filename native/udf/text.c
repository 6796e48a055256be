#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Kept free for what closes the text: brackets, and then its end. */
enum { TAIL = 64, END = 16 };

static void put_before(struct text *text, size_t tail, const char *bytes, size_t length)
{
    if (text->full || text->size < tail || length > text->size - tail ||
            text->length > text->size - tail - length) {
        text->full = true;
        return;
    }
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
}

static void put(struct text *text, const char *bytes, size_t length)
{
    put_before(text, TAIL, bytes, length);
}

static void escaped(struct text *text, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        const unsigned char byte = (unsigned char)bytes[i];
        char code[8];
        if (byte == '"' || byte == '\\') {
            const char pair[2] = {'\\', (char)byte};
            put(text, pair, sizeof pair);
        } else if (byte < ' ' || byte > '~') {
            /* Paths may hold any byte; JSON wants Unicode, and Latin-1 is a part of it. */
            const int written = snprintf(code, sizeof code, "\\u%04x", byte);
            put(text, code, (size_t)written);
        } else {
            put(text, bytes + i, 1);
        }
    }
}

static void begin_value(struct text *text, const char *key)
{
    if (text->comma)
        put(text, ",", 1);
    text->comma = true;
    if (key == NULL)
        return;
    put(text, "\"", 1);
    escaped(text, key, strlen(key));
    put(text, "\":", 2);
}

void text_begin(struct text *text, char *bytes, size_t size)
{
    *text = (struct text){.size = size};
    text->bytes = bytes;
    put(text, "{", 1);
}

void text_open(struct text *text, const char *key, char bracket)
{
    begin_value(text, key);
    put(text, &bracket, 1);
    text->comma = false;
}

void text_close(struct text *text, char bracket)
{
    put_before(text, END, &bracket, 1);
    text->comma = true;
}

void text_number(struct text *text, const char *key, uint64_t value)
{
    char digits[24];
    begin_value(text, key);
    const int written = snprintf(digits, sizeof digits, "%" PRIu64, value);
    put(text, digits, (size_t)written);
}

void text_string(struct text *text, const char *key, const char *value)
{
    text_string_open(text, key);
    text_string_add(text, value, strlen(value));
    text_string_close(text);
}

void text_string_open(struct text *text, const char *key)
{
    begin_value(text, key);
    put(text, "\"", 1);
}

void text_string_add(struct text *text, const char *bytes, size_t length)
{
    escaped(text, bytes, length);
}

void text_string_close(struct text *text)
{
    put(text, "\"", 1);
}

struct text_mark text_here(const struct text *text)
{
    return (struct text_mark){.length = text->length, .comma = text->comma};
}

bool text_keep(struct text *text, struct text_mark mark)
{
    if (!text->full)
        return true;
    text->length = mark.length;
    text->comma = mark.comma;
    text->full = false;
    text->cut = true;
    return false;
}

void text_end(struct text *text)
{
    static const char cut[] = ",\"cut\":true}";
    const char *end = !text->cut ? "}" : text->comma ? cut : cut + 1;
    if (text->length == 0)
        return; /* there was no room for anything */
    memcpy(text->bytes + text->length, end, strlen(end));
    text->length += strlen(end);
}
