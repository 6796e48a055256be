#include "threads.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory.h"
#include "preload.h"
#include "stamp.h"
#include "tagged_stack.h"

_Atomic uint64_t threads_dropped;

static struct slot *slots;
static _Atomic uint32_t next[SLOTS + 1];
static struct tagged_stack empty;
static _Atomic uint32_t used;
static _Atomic uint32_t numbers;

/* Whose destructor notes a thread's end, whichever way it ends: it returns, pthread_exit, it is
 * cancelled. The C library keeps a value of each of the first 32 keys in the thread itself, and
 * would allocate for others. Ours is one of them, made at the program's first call of malloc. */
enum { KEYS_IN_THREAD = 32 };
static pthread_key_t end_key;
static bool has_end_key;

static void note_end(void *slot)
{
    atomic_store_explicit(&((struct slot *)slot)->died, stamp_now(), memory_order_relaxed);
}

bool threads_begin(void)
{
    slots = memory_map(SLOTS * sizeof *slots);
    has_end_key = pthread_key_create(&end_key, note_end) == 0 && end_key < KEYS_IN_THREAD;
    return slots != NULL;
}

void threads_set_name(struct slot *slot)
{
    (void)prctl(PR_GET_NAME, slot->name);
}

struct slot *threads_take(uint32_t creator, uint64_t born)
{
    uint32_t number = stack_pop(&empty, next);
    if (number == STACK_EMPTY) {
        if (atomic_load_explicit(&used, memory_order_relaxed) >= SLOTS)
            return NULL;
        number = atomic_fetch_add_explicit(&used, 1, memory_order_relaxed) + 1;
        if (number > SLOTS)
            return NULL;
    }
    struct slot *slot = &slots[number - 1];
    atomic_store_explicit(&slot->state, TAKEN, memory_order_relaxed);
    slot->number = atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed);
    slot->tid = (uint32_t)syscall(SYS_gettid);
    slot->creator = creator;
    slot->born = born;
    atomic_store_explicit(&slot->died, 0, memory_order_relaxed);
    slot->events = slot->announced = 0;
    atomic_store_explicit(&slot->current, NULL, memory_order_relaxed);
    atomic_store_explicit(&slot->dropped, 0, memory_order_relaxed);
    threads_set_name(slot);
    atomic_store_explicit(&slot->state, IN_USE, memory_order_release);
    if (has_end_key)
        (void)pthread_setspecific(end_key, slot);
    return slot;
}

void threads_give_back(struct slot *slot)
{
    atomic_store_explicit(&slot->state, FREE_SLOT, memory_order_relaxed);
    stack_push(&empty, next, (uint32_t)(slot - slots) + 1);
}

struct slot *threads_next(uint32_t *cursor)
{
    uint32_t most = atomic_load_explicit(&used, memory_order_acquire);
    if (most > SLOTS)
        most = SLOTS;
    while (*cursor < most) {
        struct slot *slot = &slots[(*cursor)++];
        if (atomic_load_explicit(&slot->state, memory_order_acquire) == IN_USE)
            return slot;
    }
    return NULL;
}

void threads_forget_dropped(void)
{
    uint32_t cursor = 0;
    for (struct slot *slot = threads_next(&cursor); slot != NULL; slot = threads_next(&cursor))
        atomic_store_explicit(&slot->dropped, 0, memory_order_relaxed);
    atomic_store_explicit(&threads_dropped, 0, memory_order_relaxed);
}

bool threads_has_ended(const struct slot *slot)
{
    return slot->tid == 0 ||
           (syscall(SYS_tgkill, preload.owner, slot->tid, 0) != 0 && errno == ESRCH);
}

void threads_in_child(struct slot *own)
{
    uint32_t cursor = 0;
    for (struct slot *slot = threads_next(&cursor); slot != NULL; slot = threads_next(&cursor))
        slot->tid = 0;
    if (own != NULL)
        own->tid = (uint32_t)syscall(SYS_gettid);
}
