// What replaced.cc counts: calls of each operator that the program replaces.
#pragma once

enum {
    NEW,
    DELETE,
    NEW_ARRAY,
    DELETE_ARRAY,
    NEW_NOTHROW,
    NEW_ARRAY_NOTHROW,
    DELETE_SIZED,
    DELETE_ARRAY_SIZED,
    NEW_ALIGNED,
    DELETE_ALIGNED,
    COUNTS
};

extern unsigned long counts[COUNTS];

bool is_pools(const void *block);
