#include "chunk.h"

#include <string.h>

uint32_t chunk_checksum(const void *payload, size_t length)
{
    const unsigned char *at = payload;
    uint64_t sum = 0;
    uint64_t sums = 0;
    uint32_t word = 0;
    for (; length >= sizeof word; at += sizeof word, length -= sizeof word) {
        memcpy(&word, at, sizeof word);
        sum += word;
        sums += sum;
    }
    if (length > 0) {
        word = 0;
        memcpy(&word, at, length);
        sum += word;
        sums += sum;
    }
    return (uint32_t)(sums ^ sums >> 32);
}
