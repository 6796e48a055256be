// Threads that throw while another registers and takes back frames, as a JIT compiler does: frames SECONDS.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

extern "C" void __register_frame(void *begin);
extern "C" void __deregister_frame(void *begin);

namespace
{
constexpr int FUNCTIONS = 64;
std::atomic<bool> over;
std::atomic<unsigned long> thrown;

// .eh_frame as the manual of the format has it: one CIE, FUNCTIONS FDEs of 16 bytes of code each, and the end.
class Frames
{
  public:
    explicit Frames(std::uintptr_t code)
    {
        const std::size_t cie = bytes.size();
        put<std::uint32_t>(20);
        put<std::uint32_t>(0);
        for (const unsigned char byte : {1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0, 0, 0, 0, 0})
            put(byte);
        for (std::uintptr_t i = 0; i < FUNCTIONS; i++) {
            put<std::uint32_t>(20);
            put(static_cast<std::uint32_t>(bytes.size() - cie));
            put(code + 16 * (FUNCTIONS - i)); // not in order, so that they have to be sorted
            put<std::uint64_t>(16);
        }
        put<std::uint32_t>(0);
    }
    void *begin()
    {
        return bytes.data();
    }

  private:
    template <typename T> void put(T value)
    {
        bytes.resize(bytes.size() + sizeof value);
        std::memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
    }
    std::vector<unsigned char> bytes;
};

__attribute__((noinline)) int throwing(int depth)
{
    if (depth == 0)
        throw std::runtime_error(std::string(200, 'x'));
    std::string held(100 + static_cast<std::size_t>(depth), 'y');
    return throwing(depth - 1) + static_cast<int>(held.size());
}

void thrower()
{
    while (!over) {
        try {
            throwing(10);
        } catch (const std::runtime_error &) {
            thrown++;
        }
    }
}

void registrar(std::uintptr_t code)
{
    while (!over) {
        std::vector<Frames> frames;
        for (std::uintptr_t i = 0; i < 8; i++)
            frames.emplace_back(code + i * 0x10000);
        for (auto &each : frames)
            __register_frame(each.begin());
        std::this_thread::yield(); // somebody looks for a frame, and sorts them
        for (auto &each : frames)
            __deregister_frame(each.begin());
    }
}
} // namespace

int main(int, char **words)
{
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back(thrower);
    threads.emplace_back(registrar, 0x7000'0000'0000);
    std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(words[1])));
    over = true;
    for (auto &thread : threads)
        thread.join();
    return thrown > 0 ? 0 : 1;
}
