// Blocks of C++'s operators: what it has at its end it prints as lines "block ADDRESS SIZE", and how
// many blocks it freed with their size as "sized COUNT BYTES".
#include <cstdio>
#include <cstdlib>
#include <new>

namespace
{

struct alignas(64) wide {
    char bytes[192];
};

struct narrow {
    char bytes[40];
    // Arrays of them know how many there are, so that they are freed with their size.
    ~narrow() { *static_cast<volatile char *>(bytes) = 0; }
};

unsigned long sized, bytes;

void note(std::size_t size)
{
    sized++;
    bytes += size;
}

void run_round(unsigned round)
{
    delete new narrow;
    note(sizeof(narrow));
    delete new wide;
    note(sizeof(wide));
    delete[] new narrow[3];
    note(sizeof(std::size_t) + 3 * sizeof(narrow));
    const std::size_t size = 16 + round % 1000;
    ::operator delete(::operator new(size), size);
    ::operator delete[](::operator new[](size), size);
    ::operator delete(::operator new(size, std::align_val_t{128}), size, std::align_val_t{128});
    for (int i = 0; i < 3; i++) {
        note(size);
    }
    ::operator delete(::operator new(size, std::nothrow));
    ::operator delete(::operator new(size, std::align_val_t{64}), std::align_val_t{64});
    void *volatile escaped = std::malloc(size);
    std::free(escaped);
}

} // namespace

int main()
{
    for (unsigned round = 0; round < 5000; round++) {
        run_round(round);
    }
    void *left = ::operator new(123);
    wide *other = new wide;
    std::printf("sized %lu %lu\n", sized, bytes);
    std::printf("block %p 123\nblock %p %zu\n", left, static_cast<void *>(other), sizeof(wide));
    std::fflush(stdout);
    std::_Exit(0);
}
