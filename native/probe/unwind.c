/* By frame pointers where they hold, by libgcc's unwinder (CFI, .eh_frame) where they don't.
 *
 * Frame pointers cost some 2 ns a frame, CFI some 200. But nothing in a stack says whether a
 * function kept its frame pointer: one in libstdc++ that doesn't leaves its caller out, without a
 * trace. So each call site is tried once both ways. If the frame pointers give what CFI gives, up
 * to a thread's start, that site is walked by them from then on, and where they ended is known as a
 * thread's start. A later walk by frame pointers that ends elsewhere is not believed.
 *
 * libgcc's and not libunwind's: with glibc 2.35 and later it finds its tables without a lock
 * (_dl_find_object), where libunwind holds a lock of its own over dl_iterate_phdr, which can meet a
 * dlopen that allocates; and every C++ server has it loaded. A walk allocates nothing.
 *
 * It has a lock all the same where a program has registered frames (__register_frame: JIT compilers
 * do), and allocates and frees while it holds that. Such a call comes from the unwinder's own code;
 * a walk from there would wait for that lock for ever, so it goes by frame pointers alone. And only
 * libgcc's own will do: a program that links another unwinder would have us call that.
 *
 * A frame record is two words, on x86-64 (rbp: caller's rbp, return address) as on aarch64 (x29:
 * caller's x29, x30; AAPCS64, "The Frame Pointer"). There a leaf has none, but who calls malloc is no
 * leaf, and return addresses may be signed, by the program as by us.
 *
 * Reads of the stack are bounded by its end. On glibc a thread's descriptor lies at the top of its
 * own stack (on aarch64 with the static TLS above it), so all between is mapped. On a foreign stack
 * (a coroutine's, a signal's) every page is asked for first.
 */
#include "unwind.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include "image.h"
#include "return_address.h"
#include "stacks.h"

enum {
    SITES = 1 << 14,
    STARTS = 64,
    PAGE = 4096, /* the smallest that a kernel has: larger ones are asked for piece by piece */
    MOST_PAGES = 4096,
    LONGEST_FRAME = 8 << 20,
    BEYOND_START = 3
};

/* A call site by its return address, shifted by one; the lowest bit: frame pointers hold there. */
static _Atomic uint64_t sites[SITES];
static _Atomic uintptr_t starts[STARTS];

struct unwind_counts unwind_counts;

/* The end of the first thread's stack: ld.so's (glibc). */
extern void *__libc_stack_end; /* NOLINT(bugprone-reserved-identifier,cert-dcl37-c) */

typedef _Unwind_Reason_Code backtrace_function(_Unwind_Trace_Fn step, void *argument);
typedef _Unwind_Ptr position_function(struct _Unwind_Context *context);

/* The unwinder, and where its object lies; 0 to 0 if that is not known. */
static backtrace_function *backtrace = _Unwind_Backtrace;
static position_function *position = _Unwind_GetIP;
static uintptr_t unwinder_start, unwinder_end;

/* Our own code lies before our data. */
static bool is_own(uintptr_t pc)
{
    return pc >= (uintptr_t)image_start && pc < (uintptr_t)sites;
}

static int find_unwinder(struct dl_phdr_info *object, size_t size, void *function)
{
    (void)size;
    const uintptr_t address = (uintptr_t)function;
    uintptr_t start = UINTPTR_MAX;
    uintptr_t end = 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_LOAD)
            continue;
        const uintptr_t from = object->dlpi_addr + part->p_vaddr;
        start = from < start ? from : start;
        end = from + part->p_memsz > end ? from + part->p_memsz : end;
    }
    if (address < start || address >= end)
        return 0;
    unwinder_start = start;
    unwinder_end = end;
    return 1;
}

void unwind_choose(void)
{
    void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *walk = library != NULL ? dlsym(library, "_Unwind_Backtrace") : NULL;
    void *where = library != NULL ? dlsym(library, "_Unwind_GetIP") : NULL;
    if (walk != NULL && where != NULL) {
        memcpy(&backtrace, &walk, sizeof walk);
        memcpy(&position, &where, sizeof where);
    }
    memcpy(&walk, &backtrace, sizeof walk);
    (void)dl_iterate_phdr(find_unwinder, walk);
}

static bool is_unwinders(uintptr_t pc)
{
    return pc >= unwinder_start && pc < unwinder_end;
}

void unwind_begin(struct thread *mine)
{
    mine->top = mine->id == getpid() ? (uintptr_t)__libc_stack_end : (uintptr_t)pthread_self();
    mine->readable = mine->top;
}

/* Whether eight bytes can be read, without reading them: the kernel looks at the new mask before it
 * refuses this `how`. */
static bool can_read(uintptr_t address)
{
    return syscall(SYS_rt_sigprocmask, ~0, address, NULL, 8) != 0 && errno == EINVAL;
}

/* Extends what is known to be readable of this thread's stack down to `low`. */
static void extend(struct thread *mine, uintptr_t low)
{
    const uintptr_t page = low & ~(uintptr_t)(PAGE - 1);
    if (page >= mine->readable || mine->readable - page > (uintptr_t)MOST_PAGES * PAGE)
        return;
    for (uintptr_t at = page; at < mine->readable; at += PAGE) {
        if (!can_read(at))
            return; /* a foreign stack below ours */
    }
    mine->readable = page;
}

static uint32_t by_pointers(struct thread *mine, const uintptr_t *frame, uintptr_t *pcs)
{
    uint32_t depth = 0;
    uintptr_t at = (uintptr_t)frame;
    uintptr_t good_page = at & ~(uintptr_t)(PAGE - 1); /* we run on it */
    extend(mine, at);
    while (depth < STACK_DEPTH) {
        const uintptr_t *const words = (const uintptr_t *)at;
        const uintptr_t pc = return_address_strip(words[1]);
        if (pc == 0)
            break;
        if (depth != 0 || !is_own(pc))
            pcs[depth++] = pc;
        const uintptr_t up = words[0];
        if (up <= at || up - at > LONGEST_FRAME || up % sizeof(uintptr_t) != 0)
            break;
        const uintptr_t last = up + 2 * sizeof(uintptr_t) - 1;
        if (up < mine->readable || last >= mine->top) {
            const uintptr_t page = last & ~(uintptr_t)(PAGE - 1);
            if (page != good_page && (!can_read(up) || !can_read(up + sizeof(uintptr_t))))
                break;
            good_page = page;
        }
        at = up;
    }
    return depth;
}

struct walk {
    uintptr_t *pcs;
    uint32_t depth;
    bool ended; /* at a function that nobody called */
};

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *argument)
{
    struct walk *walk = argument;
    const uintptr_t pc = position(context);
    walk->ended = pc == 0;
    if (pc == 0 || (walk->depth == 0 && is_own(pc)))
        return _URC_NO_REASON;
    if (walk->depth == STACK_DEPTH)
        return _URC_FATAL_PHASE1_ERROR;
    walk->pcs[walk->depth++] = pc;
    return _URC_NO_REASON;
}

static bool is_start(uintptr_t pc)
{
    for (uint32_t i = 0; i < STARTS; i++) {
        const uintptr_t known = atomic_load_explicit(&starts[i], memory_order_relaxed);
        if (known == pc)
            return true;
        if (known == 0)
            return false;
    }
    return false;
}

static void add_start(uintptr_t pc)
{
    for (uint32_t i = 0; i < STARTS; i++) {
        uintptr_t known = 0;
        if (atomic_compare_exchange_strong(&starts[i], &known, pc) || known == pc)
            return;
    }
}

/* What lies above a thread's start (clone, _start) is left out, so that both walks give the same
 * stack. */
static uint32_t up_to_start(const uintptr_t *pcs, uint32_t depth)
{
    for (uint32_t beyond = 1; beyond <= BEYOND_START && beyond < depth; beyond++) {
        if (is_start(pcs[depth - 1 - beyond]))
            return depth - beyond;
    }
    return depth;
}

static _Atomic uint64_t *site_of(uintptr_t pc)
{
    return &sites[(pc * 0x9E3779B97F4A7C15U) >> 50];
}

/* Both ways; notes whether the first is good for this call site. */
static uint32_t by_cfi(uintptr_t *pcs, uint32_t pointers, _Atomic uint64_t *site, bool *complete)
{
    uintptr_t found[STACK_DEPTH];
    struct walk walk = {.pcs = found};
    (void)backtrace(step, &walk);
    const bool holds = walk.ended && pointers > 0 && pointers <= walk.depth &&
                       walk.depth - pointers <= BEYOND_START &&
                       memcmp(pcs, found, pointers * sizeof *pcs) == 0;
    if (holds)
        add_start(pcs[pointers - 1]);
    if (pointers > 0)
        atomic_store_explicit(site, (uint64_t)pcs[0] << 1 | holds, memory_order_relaxed);
    *complete = walk.ended;
    if (holds)
        return pointers;
    if (!walk.ended && pointers > walk.depth)
        return pointers; /* code without CFI */
    const uint32_t depth = up_to_start(found, walk.depth);
    memcpy(pcs, found, depth * sizeof *pcs);
    return depth;
}

uint32_t unwind(const uintptr_t *frame, uintptr_t *pcs, bool *truncated)
{
    uint32_t depth = by_pointers(&thread, frame, pcs);
    _Atomic uint64_t *site = site_of(depth > 0 ? pcs[0] : 0);
    bool complete = depth > 0 && is_start(pcs[depth - 1]);
    const uint64_t known = atomic_load_explicit(site, memory_order_relaxed);
    if ((complete && known == ((uint64_t)pcs[0] << 1 | 1)) ||
            is_unwinders(return_address_strip(frame[1]))) {
        atomic_fetch_add_explicit(&unwind_counts.by_pointers, 1, memory_order_relaxed);
    } else {
        depth = by_cfi(pcs, depth, site, &complete);
        atomic_fetch_add_explicit(&unwind_counts.by_cfi, 1, memory_order_relaxed);
    }
    if (!complete)
        atomic_fetch_add_explicit(&unwind_counts.incomplete, 1, memory_order_relaxed);
    *truncated = !complete;
    return depth;
}
