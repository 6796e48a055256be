"""Mappings by small steps instead of smaps: the same bytes, wherever this kernel can."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dballoc.host.process.handle import Process
from dballoc.process import pagemap_scan, smaps

MIB = 1 << 20

# Pages that were written, that were only read (the kernel's page of zeros), that have gone again;
# huge ones; a file's; and what nobody may touch any more.
VARIED = """
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
static char *map(size_t size, int descriptor) {
    int flags = descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    return mmap(NULL, size, PROT_READ | PROT_WRITE, flags, descriptor, 0);
}
int main(int count, char **words) {
    size_t m = 1 << 20;
    char *small = map(40 * m, -1), *huge = map(16 * m, -1), *shut = map(8 * m, -1);
    char *file = map(m, open(words[0], O_RDWR | (count ? 0 : O_CREAT)));
    volatile char sum = 0;
    madvise(small, 40 * m, MADV_NOHUGEPAGE);
    memset(small, 1, 30 * m);
    for (size_t i = 30 * m; i < 35 * m; i += 4096) sum += small[i];
    for (size_t i = 0; i < 10 * m; i += 8192) madvise(small + i, 4096, MADV_DONTNEED);
    madvise(huge, 16 * m, MADV_HUGEPAGE);
    memset(huge, 1, 13 * m);
    memset(shut, 1, 3 * m);
    mprotect(shut, 8 * m, PROT_NONE);
    if (file != MAP_FAILED) sum += file[0];
    puts("ready");
    fflush(stdout);
    return getchar() == 0;
}
"""


@pytest.fixture
def program(running_program: Callable[..., int]) -> int:
    """The PID of one with all sorts of pages."""
    with open("/proc/self/pagemap", "rb") as pagemap:
        try:
            pagemap_scan.count_pages(pagemap.fileno(), 0, MIB)
        except OSError:
            pytest.skip("this kernel has no PAGEMAP_SCAN (Linux 6.7)")
    return running_program("varied", VARIED)


@pytest.fixture
def reading(
    program: int, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], list[smaps.MemoryMapping]]:
    """``reading(n)``: its mappings, where so many bytes in small pages are the most for smaps."""

    def read(most: int) -> list[smaps.MemoryMapping]:
        monkeypatch.setattr(smaps, "MOST_SMALL", most)
        return smaps.read_mappings(Process.open(program))

    return read


Reading = Callable[[int], list[smaps.MemoryMapping]]


def test_it_is_what_smaps_says(program: int, reading: Reading) -> None:
    for _ in range(10):
        theirs = [m for m in smaps.read_smaps(Process.open(program)) if m.path != "[vsyscall]"]
        ours = reading(16 * MIB)
        # The kernel may make pages huge, or take a file's, between the two.
        if theirs == [m for m in smaps.read_smaps(Process.open(program)) if m.path != "[vsyscall]"]:
            break
    assert all(m.flags is None for m in ours)
    assert (
        sum(m.huge for m in theirs)
        or "[never]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    )

    def facts(mappings: list[smaps.MemoryMapping]) -> list[tuple[object, ...]]:
        return [(m.start, m.end, m.permissions, m.path, m.rss, m.huge, m.swap) for m in mappings]

    assert facts(ours) == facts(theirs)


def test_smaps_tells_more_where_it_is_quick(program: int, reading: Reading) -> None:
    assert any(m.flags for m in reading(64 * MIB))
    # Huge pages are walked at once.
    largest = max(m.rss - m.huge for m in smaps.read_smaps(Process.open(program)))
    assert any(m.flags for m in reading(largest))
    assert not any(m.flags for m in reading(largest - 1))


def test_a_kernel_without_it_has_smaps(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> pagemap_scan.PageCounts:
        raise OSError(25, "Inappropriate ioctl for device")

    monkeypatch.setattr(pagemap_scan, "count_pages", refuses)
    assert any(m.flags for m in reading(16 * MIB))


def test_no_call_goes_on_for_long(program: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little a call may do, the sum is the same."""
    [mapping] = [m for m in smaps.read_smaps(Process.open(program)) if m.size == 40 * MIB]
    pagemap = os.open(f"/proc/{program}/pagemap", os.O_RDONLY)
    try:
        for name, least in (("_MOST_PAGES", 7), ("_STEP", 4096 * 3), ("_REGIONS", 1)):
            with monkeypatch.context() as patch:
                patch.setattr(pagemap_scan, name, least)
                assert (
                    pagemap_scan.count_pages(pagemap, mapping.start, mapping.end).resident
                    == mapping.rss
                )
    finally:
        os.close(pagemap)
