// The operators that a program replaces, by -DREPLACE_ and a letter: n (new and delete), a (new[] and delete[]), t (those that
// do not throw), s (sized delete), l (aligned). What is replaced counts its calls.
//
// n, a, l have memory of their own, of which malloc knows nothing: with -DBY_MALLOC theirs is malloc's.
#include "replaced.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace
{
constexpr std::size_t POOL = 256 << 20;
alignas(4096) char pool[POOL];
[[maybe_unused]] std::size_t used;

[[maybe_unused]] void *take(std::size_t size, std::size_t alignment = 16)
{
#ifdef BY_MALLOC
    return std::aligned_alloc(alignment, (size + alignment) / alignment * alignment);
#else
    used = (used + alignment - 1) / alignment * alignment;
    void *block = pool + used;
    used += size + 1;
    if (used > POOL)
        std::abort();
    return block;
#endif
}

// A block of another's here is what the probe must not bring about.
[[maybe_unused]] void give(void *block)
{
#ifdef BY_MALLOC
    std::free(block);
#else
    const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(block) - reinterpret_cast<std::uintptr_t>(pool);
    if (block != nullptr && offset >= POOL) {
        std::fputs("a block of another's\n", stderr);
        std::abort();
    }
#endif
}
} // namespace

unsigned long counts[COUNTS];

bool is_pools(const void *block)
{
    return reinterpret_cast<std::uintptr_t>(block) - reinterpret_cast<std::uintptr_t>(pool) < POOL;
}

#ifdef REPLACE_n
void *operator new(std::size_t size)
{
    counts[NEW]++;
    return take(size);
}
void operator delete(void *block) noexcept
{
    counts[DELETE]++;
    give(block);
}
#endif
#ifdef REPLACE_a
void *operator new[](std::size_t size)
{
    counts[NEW_ARRAY]++;
    return take(size);
}
void operator delete[](void *block) noexcept
{
    counts[DELETE_ARRAY]++;
    give(block);
}
#endif
#ifdef REPLACE_t
void *operator new(std::size_t size, const std::nothrow_t &) noexcept
{
    counts[NEW_NOTHROW]++;
    return ::operator new(size);
}
void *operator new[](std::size_t size, const std::nothrow_t &) noexcept
{
    counts[NEW_ARRAY_NOTHROW]++;
    return ::operator new[](size);
}
#endif
#ifdef REPLACE_s
void operator delete(void *block, std::size_t) noexcept
{
    counts[DELETE_SIZED]++;
    ::operator delete(block);
}
void operator delete[](void *block, std::size_t) noexcept
{
    counts[DELETE_ARRAY_SIZED]++;
    ::operator delete[](block);
}
#endif
#ifdef REPLACE_l
void *operator new(std::size_t size, std::align_val_t alignment)
{
    counts[NEW_ALIGNED]++;
    return take(size, static_cast<std::size_t>(alignment));
}
void operator delete(void *block, std::align_val_t) noexcept
{
    counts[DELETE_ALIGNED]++;
    give(block);
}
#endif
