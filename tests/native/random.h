/* Random numbers that are the same on every machine: xorshift64* (Vigna 2016). */
#ifndef DBALLOC_TESTS_RANDOM_H
#define DBALLOC_TESTS_RANDOM_H

#include <stdint.h>

static inline uint64_t draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717ull;
}

/* From 0 to most - 1. */
static inline uint64_t draw_below(uint64_t *state, uint64_t most)
{
    return (draw(state) >> 33) % most;
}

#endif
