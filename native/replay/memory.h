/* The engine's own memory. It is shared memory, which the kernel counts apart from a heap's
 * (RssShmem): so all anonymous memory of the process belongs to its malloc, but for a small known
 * rest. */
#ifndef DBALLOC_REPLAY_MEMORY_H
#define DBALLOC_REPLAY_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed; ends the program if there is none. Present: the pages of up to 64 MiB are there
 * before they are used, so that no fault of theirs is among those that are counted. */
void *memory_map(size_t count, size_t size);
void *memory_map_present(size_t count, size_t size);
void memory_unmap(void *memory, size_t count, size_t size);

/* Anonymous bytes of this process now: quickly, to some pages a CPU on some kernels (their counters
 * are kept by CPU; proc_pid_statm(5)), or exactly, which walks the page tables. */
void memory_open_counters(void);
uint64_t memory_read_anonymous(void);
uint64_t memory_read_anonymous_exactly(void);

#endif
