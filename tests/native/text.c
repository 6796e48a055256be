// Writes more with native/udf/text.c than its buffer holds: text SIZE. Prints the JSON.
#include "../../native/udf/text.h"

#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words)
{
    (void)count;
    const size_t size = (size_t)atoi(words[1]);
    char *buffer = malloc(size);
    if (buffer == NULL) {
        return 1;
    }
    struct text text;
    text_begin(&text, buffer, size);
    text_string(&text, "path", "/a \"b\"\\\n\xff");
    struct text_mark mark = text_here(&text);
    text_open(&text, "list", '[');
    if (!text_keep(&text, mark)) {
        return 1;
    }
    for (unsigned i = 0; i < 100; i++) {
        mark = text_here(&text);
        text_open(&text, NULL, '{');
        text_number(&text, "index", i);
        text_number(&text, "most", UINT64_MAX);
        text_close(&text, '}');
        if (!text_keep(&text, mark)) {
            break;
        }
    }
    text_close(&text, ']');
    mark = text_here(&text);
    text_string_open(&text, "tail");
    for (int i = 0; i < 50; i++) {
        text_string_add(&text, "0123456789", 10);
    }
    text_string_close(&text);
    text_keep(&text, mark);
    text_end(&text);
    fwrite(text.bytes, 1, text.length, stdout);
    free(buffer);
    return 0;
}
