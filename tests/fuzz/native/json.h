// Whether a text is JSON as native/udf/text.c may write it: ASCII alone, unsigned numbers, nothing
// after the value.
#ifndef DBALLOC_FUZZ_JSON_H
#define DBALLOC_FUZZ_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct json {
    const char *at, *end;
};

static inline bool json_take(struct json *json, const char *word)
{
    const size_t length = strlen(word);
    if ((size_t)(json->end - json->at) < length || memcmp(json->at, word, length) != 0)
        return false;
    json->at += length;
    return true;
}

static inline bool json_string(struct json *json)
{
    if (!json_take(json, "\""))
        return false;
    while (json->at < json->end && *json->at != '"') {
        const char byte = *json->at++;
        if (byte < ' ' || byte > '~')
            return false;
        if (byte != '\\')
            continue;
        if (json->at == json->end || strchr("\"\\u", *json->at) == NULL)
            return false;
        if (*json->at++ == 'u') {
            for (int i = 0; i < 4; i++) {
                if (json->at == json->end || strchr("0123456789abcdef", *json->at++) == NULL)
                    return false;
            }
        }
    }
    return json_take(json, "\"");
}

static inline bool json_value(struct json *json, int depth);

static inline bool json_list(struct json *json, int depth, const char *closing, bool keys)
{
    if (json_take(json, closing))
        return true;
    do {
        if (keys && !(json_string(json) && json_take(json, ":")))
            return false;
        if (!json_value(json, depth - 1))
            return false;
    } while (json_take(json, ","));
    return json_take(json, closing);
}

static inline bool json_value(struct json *json, int depth)
{
    if (depth == 0)
        return false;
    if (json_take(json, "{"))
        return json_list(json, depth, "}", true);
    if (json_take(json, "["))
        return json_list(json, depth, "]", false);
    if (json->at < json->end && *json->at == '"')
        return json_string(json);
    const char *start = json->at;
    if (json_take(json, "true"))
        return true;
    while (json->at < json->end && *json->at >= '0' && *json->at <= '9')
        json->at++;
    return json->at > start;
}

// Ends the program if it is not.
static inline void json_check(const char *text, size_t length)
{
    struct json json = {.at = text, .end = text + length};
    if (!json_value(&json, 64) || json.at != json.end)
        abort();
}

#endif
