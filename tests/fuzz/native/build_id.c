// The notes of a mapped object: native/probe/build_id.c.
#include "../../../native/probe/build_id.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char digits[2 * LONGEST_BUILD_ID + 1] = "";
    const size_t length = notes_build_id(data, size, digits);
    if (length > 2 * LONGEST_BUILD_ID || length % 2 != 0 ||
            strspn(digits, "0123456789abcdef") < length) {
        abort();
    }
    return 0;
}
