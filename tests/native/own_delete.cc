// Replaces new and delete alone, on malloc, as programs do that count their blocks. Every other form
// of delete ends in its own. Prints how often that was called.
#include <cstdio>
#include <cstdlib>
#include <new>

namespace
{
unsigned long deletes;
}

void *operator new(std::size_t size)
{
    void *block = std::malloc(size);
    if (block == nullptr)
        throw std::bad_alloc();
    return block;
}

void operator delete(void *block) noexcept
{
    deletes++;
    std::free(block);
}

int main()
{
    // Each size is another class, so that the first block of each is the recorder's own.
    for (std::size_t size = 10000; size < 10000000; size *= 2) {
        for (int i = 0; i < 40; i++) {
            ::operator delete(::operator new(size), size);
            ::operator delete[](::operator new[](size), size);
        }
    }
    std::printf("deletes %lu\n", deletes);
    return 0;
}
