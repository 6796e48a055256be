/* Which thread created which: pthread_create is the parent's, and what it takes from malloc for its
 * child's stack is recorded there. C11's thrd_create does not lead here; its threads' parents are not
 * known. */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "recorder.h"
#include "tagged_stack.h"

#define EXPORT __attribute__((visibility("default")))

/* Threads that were created and have not begun. */
enum { BIRTHS = 1 << 12 };

struct birth {
    void *(*start)(void *);
    void *argument;
    uint32_t creator;
    uint64_t born;
};

static struct birth births[BIRTHS];
static _Atomic uint32_t next_birth[BIRTHS + 1];
static struct tagged_stack empty;
static _Atomic uint32_t used;

typedef int create(pthread_t *newthread, const pthread_attr_t *attr, void *(*start_routine)(void *),
        void *arg);

static create *next_create;

/* dlsym returns an object pointer; POSIX lets it be a function's (dlsym(3) casts so). */
__attribute__((constructor)) static void look(void)
{
    void *address = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&next_create, &address, sizeof address);
}

/* 0 if there is no room. */
static uint32_t take(void)
{
    const uint32_t number = stack_pop(&empty, next_birth);
    if (number != STACK_EMPTY)
        return number;
    if (atomic_load_explicit(&used, memory_order_relaxed) >= BIRTHS)
        return 0;
    const uint32_t fresh = atomic_fetch_add_explicit(&used, 1, memory_order_relaxed) + 1;
    return fresh <= BIRTHS ? fresh : 0;
}

static void *begin(void *argument)
{
    struct birth *birth = argument;
    const struct birth this = *birth;
    stack_push(&empty, next_birth, (uint32_t)(birth - births) + 1);
    thread.creator = this.creator;
    thread.born = this.born;
    return this.start(this.argument);
}

EXPORT int pthread_create(
        pthread_t *newthread, const pthread_attr_t *attr, void *(*start_routine)(void *), void *arg)
{
    if (next_create == NULL)
        look();
    const uint32_t creator = recorder_thread_number();
    const uint32_t number = creator != 0 ? take() : 0;
    if (number == 0)
        return next_create(newthread, attr, start_routine, arg);
    struct birth *birth = &births[number - 1];
    *birth = (struct birth){
            .start = start_routine, .argument = arg, .creator = creator, .born = stamp_now()};
    const int error = next_create(newthread, attr, begin, birth);
    if (error != 0)
        stack_push(&empty, next_birth, number);
    return error;
}
