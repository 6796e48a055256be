// Uses every form of operator new and delete: operators [live]. Which of them it replaces is replaced.cc's, linked with it or
// in a library of its own. Prints how often each replaced one was called, and whose each form's memory was; with "live" it
// then has something alive, and waits on standard input.
#include "replaced.h"

#include <cstdio>
#include <cstring>
#include <new>
#include <thread>
#include <unistd.h>

namespace
{
struct Small {
    char bytes[40];
};
struct alignas(128) Aligned {
    char bytes[256];
};
constexpr int ROUNDS = 1000, LIVE = 20000;

// Keeps the compiler from leaving out a pair of new and delete.
template <typename T> T *kept(T *block)
{
    __asm__ volatile("" : "+r"(block));
    std::memset(static_cast<void *>(block), 1, sizeof *block);
    return block;
}

void every_form(int round)
{
    const std::size_t size = 1 + static_cast<std::size_t>(round) % 3000;
    delete kept(new Small);
    delete kept(new (std::nothrow) Small);
    delete kept(new Aligned);
    delete kept(new (std::nothrow) Aligned);
    delete[] kept(new char[size]);
    delete[] kept(new (std::nothrow) char[size]);
    delete[] kept(new Aligned[3]);
    delete[] kept(new (std::nothrow) Aligned[3]);
    const auto alignment = std::align_val_t{256};
    ::operator delete(::operator new(size));
    ::operator delete(::operator new(size), size);
    ::operator delete(::operator new(size), std::nothrow);
    ::operator delete[](::operator new[](size));
    ::operator delete[](::operator new[](size), size);
    ::operator delete[](::operator new[](size), std::nothrow);
    ::operator delete(::operator new(size, alignment), alignment);
    ::operator delete(::operator new(size, alignment), size, alignment);
    ::operator delete(::operator new(size, alignment), alignment, std::nothrow);
    ::operator delete[](::operator new[](size, alignment), alignment);
    ::operator delete[](::operator new[](size, alignment), size, alignment);
    ::operator delete[](::operator new[](size, alignment), alignment, std::nothrow);
    ::operator delete(nullptr);
    ::operator delete[](nullptr, size);
}

// Their addresses: in an executable at a fixed address the loader takes these for the operators' own.
void *(*volatile const plain)(std::size_t) = ::operator new;
void (*volatile const plain_end)(void *) = ::operator delete;

void whose()
{
    const auto alignment = std::align_val_t{64};
    void *blocks[] = {::operator new(1), ::operator new(1, std::nothrow), ::operator new[](1),
            ::operator new[](1, std::nothrow), ::operator new(1, alignment), ::operator new[](1, alignment)};
    for (void *block : blocks)
        std::printf("%c", is_pools(block) ? 'p' : 'm');
    std::printf("\n");
    ::operator delete(blocks[0], 1);
    ::operator delete(blocks[1]);
    ::operator delete[](blocks[2], 1);
    ::operator delete[](blocks[3]);
    ::operator delete(blocks[4], alignment);
    ::operator delete[](blocks[5], alignment);
}
} // namespace

int main(int count, char **words)
{
    for (int round = 0; round < ROUNDS; round++)
        every_form(round);
    plain_end(plain(100));
    whose();
    for (const unsigned long calls : counts)
        std::printf("%lu ", calls);
    std::printf("\n");
    if (count > 1 && std::strcmp(words[1], "live") == 0) {
        static char *live[LIVE];
        for (char *&block : live)
            block = kept(new char[1000]);
        // The probe begins to answer with the first allocation of a second thread.
        std::thread([] { delete kept(new Small); }).join();
        std::printf("ready\n");
        std::fflush(stdout);
        char byte;
        while (read(STDIN_FILENO, &byte, 1) > 0) {
        }
        for (char *block : live)
            delete[] block;
    }
    return 0;
}
