#include "filter.h"

_Atomic unsigned char filter[FILTER_SIZE];

static void change(_Atomic unsigned char *counter, int by)
{
    unsigned char old = atomic_load_explicit(counter, memory_order_relaxed);
    do {
        if (old == FILTER_FULL || (old == 0 && by < 0))
            return;
    } while (!atomic_compare_exchange_weak_explicit(
            counter, &old, (unsigned char)(old + by), memory_order_relaxed, memory_order_relaxed));
}

void filter_add(const void *block)
{
    change(filter_counter(block), 1);
}

void filter_remove(const void *block)
{
    change(filter_counter(block), -1);
}

void filter_pin(const void *block)
{
    atomic_store_explicit(filter_counter(block), FILTER_FULL, memory_order_relaxed);
}
