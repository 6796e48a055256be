/* musl's malloc (src/malloc/mallocng) outside of musl: what it asks of its C library, and the rest of malloc's family.
 *
 * Compiled with musl's mallocng directory in the include path. Its own glue.h, which needs musl's insides, is replaced by this file: each
 * of its sources is included below, after the guard of that header is set. One lock, as musl has it. */
#define _GNU_SOURCE
#define MALLOC_GLUE_H

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define size_classes ng_size_classes
#define ctx ng_context
#define alloc_meta ng_alloc_meta
#define is_allzero ng_is_allzero
#define dump_heap ng_dump_heap

#define USE_MADV_FREE 0
#undef assert
#define assert(x) ((x) ? (void)0 : __builtin_trap())

/* The program's break belongs to the C library: all by mmap. */
#define brk(p) ((p) - 1)
#define DISABLE_ALIGNED_ALLOC 0
#define MT 1
#define RDLOCK_IS_EXCLUSIVE 1

static inline uint64_t get_random_secret(void) {
    uint64_t secret;
    if (getrandom(&secret, sizeof secret, GRND_NONBLOCK) != sizeof secret)
        secret = (uintptr_t)&secret * 1103515245;
    return secret;
}

static inline size_t get_page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static inline int a_ctz_32(uint32_t x) { return __builtin_ctz(x); }
static inline int a_clz_32(uint32_t x) { return __builtin_clz(x); }
static inline int a_cas(volatile int *p, int t, int s) { return __sync_val_compare_and_swap(p, t, s); }
static inline int a_swap(volatile int *p, int v) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); }
static inline void a_or(volatile int *p, int v) { __sync_fetch_and_or(p, v); }

static pthread_mutex_t ng_lock = PTHREAD_MUTEX_INITIALIZER;
static inline void rdlock(void) { pthread_mutex_lock(&ng_lock); }
static inline void wrlock(void) { pthread_mutex_lock(&ng_lock); }
static inline void unlock(void) { pthread_mutex_unlock(&ng_lock); }
static inline void upgradelock(void) {}
#define LOCK_OBJ_DEF struct ng_no_object

#include "malloc.c"

#include "free.c"

#include "aligned_alloc.c"
#include "malloc_usable_size.c"
#include "realloc.c"

/* A child of fork has one thread, and must find the lock free. */
static void ng_before_fork(void) { pthread_mutex_lock(&ng_lock); }
static void ng_after_fork(void) { pthread_mutex_unlock(&ng_lock); }
static void ng_child(void) { pthread_mutex_init(&ng_lock, 0); }
__attribute__((constructor)) static void ng_start(void) { pthread_atfork(ng_before_fork, ng_after_fork, ng_child); }

void *calloc(size_t count, size_t size) {
    size_t whole;
    if (__builtin_mul_overflow(count, size, &whole)) {
        errno = ENOMEM;
        return 0;
    }
    void *p = malloc(whole);
    if (p && !is_allzero(p))
        memset(p, 0, whole);
    return p;
}

void *memalign(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }

int posix_memalign(void **result, size_t alignment, size_t size) {
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)))
        return EINVAL;
    int before = errno;
    void *p = aligned_alloc(alignment, size);
    errno = before;
    if (!p)
        return ENOMEM;
    *result = p;
    return 0;
}

void *valloc(size_t size) { return aligned_alloc(get_page_size(), size); }

void *pvalloc(size_t size) {
    size_t page = get_page_size();
    return aligned_alloc(page, (size + page - 1) & ~(page - 1));
}
