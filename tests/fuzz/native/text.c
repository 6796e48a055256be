// JSON into buffers of any size: native/udf/text.c, in any order that its header allows.
#include "../../../native/udf/text.h"

#include "json.h"

enum { DEEPEST = 16 };

struct input {
    const uint8_t *at;
    size_t left;
};

static unsigned take(struct input *input)
{
    if (input->left == 0) {
        return 0;
    }
    input->left--;
    return *input->at++;
}

// Some bytes as a string.
static const char *string(struct input *input, char words[256])
{
    size_t length = take(input);
    length = length < input->left ? length : input->left;
    memcpy(words, input->at, length);
    words[length] = '\0';
    input->at += length;
    input->left -= length;
    return words;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {.at = data, .left = size};
    const size_t room = take(&input) * 8;
    char *buffer = malloc(room + 1);
    char words[256];
    char open[DEEPEST];
    int depth = 0;
    struct text text;
    if (buffer == NULL) {
        abort();
    }
    text_begin(&text, buffer, room);
    while (input.left > 0) {
        const unsigned what = take(&input);
        const char *key = depth > 0 && open[depth - 1] == ']' ? NULL : "k\"\n";
        const struct text_mark mark = text_here(&text);
        switch (what % 5) {
        case 0:
            if (depth < DEEPEST) {
                text_open(&text, key, what & 8 ? '[' : '{');
                if (text_keep(&text, mark)) {
                    open[depth++] = what & 8 ? ']' : '}';
                }
            }
            break;
        case 1:
            if (depth > 0) {
                text_close(&text, open[--depth]);
            }
            break;
        case 2:
            text_number(&text, key, (uint64_t)what << (what % 57));
            (void)text_keep(&text, mark);
            break;
        case 3:
            text_string(&text, key, string(&input, words));
            (void)text_keep(&text, mark);
            break;
        default:
            text_string_open(&text, key);
            for (unsigned i = 0; i < what / 16; i++) {
                text_string_add(&text, string(&input, words), strlen(words));
            }
            text_string_close(&text);
            (void)text_keep(&text, mark);
        }
    }
    while (depth > 0) {
        text_close(&text, open[--depth]);
    }
    text_end(&text);
    if (text.length > room) {
        abort();
    }
    // Too small a buffer for any text has none.
    if (text.length > 0) {
        json_check(text.bytes, text.length);
    }
    free(buffer);
    return 0;
}
