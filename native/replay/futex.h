/* Waiting for a word to change (futex(2)). */
#ifndef DBALLOC_REPLAY_FUTEX_H
#define DBALLOC_REPLAY_FUTEX_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns when it may no longer be `value`: the caller looks again, so every error (EAGAIN, EINTR)
 * means the same. */
static inline void futex_wait(const void *word, uint32_t value)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static inline void futex_wake(const void *word, int count)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

#endif
