"""A look has an end, whatever the process is like: bounds that are reached are said, and what is
read adds up.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.explain.ledger.ledger import build_ledger
from dballoc.ground.errors import Failure
from dballoc.host.process.handle import Process
from dballoc.process import pagemap_scan, read_limits, smaps, snapshot
from dballoc.process.heaps import glibc_heap, mimalloc_heap
from dballoc.process.heaps.glibc_arenas import GlibcHeap
from dballoc.process.mapping_kind import MappingKind, classify_mappings
from dballoc.process.memory_reader import PAGE, Memory, Span
from dballoc.process.read_limits import MOST, ReadBudget, Work

pytestmark = pytest.mark.long

HOSTILE = Path(__file__).parents[2] / "native" / "hostile.c"
MIB = 1 << 20
START = 0x7F0000000000


def fewer(monkeypatch: pytest.MonkeyPatch, work: Work, most: int) -> None:
    monkeypatch.setitem(MOST, work, most)


@pytest.fixture
def hostile(running_program: Callable[..., int]) -> Callable[[str, int], int]:
    """``hostile("sparse", 1000)``: the PID of a process of that kind."""

    def start(kind: str, count: int) -> int:
        return running_program(
            "hostile",
            HOSTILE.read_text(),
            "-D_GNU_SOURCE",
            "-pthread",
            arguments=(kind, str(count)),
        )

    return start


def test_time_ends_by_our_own_work_and_by_the_clock() -> None:
    for which in (0, 1):
        now = [0.0, 0.0]
        one = ReadBudget(cpu=lambda now=now: now[0], clock=lambda now=now: now[1])  # type: ignore[misc]
        assert not one.out_of_time
        now[which] = [read_limits.SECONDS, read_limits.PATIENCE][which]
        assert one.out_of_time
        assert one.out_of_time
        assert len(one.notes) == 1
        assert "reading was stopped after 10 s of CPU time" in one.notes[0]


def test_what_is_cut_is_said_once() -> None:
    one = ReadBudget()
    assert one.spend(Work.BLOCKS, MOST[Work.BLOCKS])
    assert one.notes == []
    assert not one.spend(Work.BLOCKS)
    assert not one.spend(Work.BLOCKS)
    assert one.remaining(Work.BLOCKS) == 0
    [note] = one.notes
    assert "it has more than 65,536 large blocks of its heap" in note


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.data())
def test_a_span_of_runs_answers_as_one_of_pages_would(
    present: list[bool], data: st.DataObject
) -> None:
    span = Span.of_pages(START, present)
    edges = st.integers(START - PAGE, START + (len(present) + 1) * PAGE)

    def told(start: int, end: int) -> int:
        pages = [START + PAGE * i for i, there in enumerate(present) if there]
        return sum(max(0, min(end, page + PAGE) - max(start, page)) for page in pages)

    start, end = sorted([data.draw(edges), data.draw(edges)])
    assert span.count_resident(start, end) == told(start, end)
    assert sum(b - a for a, b in span.iterate_runs(start, end)) == told(start, end)
    pieces = sorted([*span.iterate_runs(start, end), *span.iterate_gaps(start, end)])
    assert [start, *(b for _, b in pieces)] == [*(a for a, _ in pieces), end]
    assert (span.resident == span.end - span.start) == all(present)
    for pages in (1, 2, 4):
        size = pages * PAGE
        places = range(-(-START // size) * size, span.end, size)
        assert list(span.multiples(size)) == [at for at in places if told(at, at + PAGE)]
        assert list(span.multiples(size, fully_resident=True)) == [
            at for at in places if told(at, at + size) == size
        ]


def test_a_tib_takes_as_much_as_is_in_it(hostile: Callable[[str, int], int]) -> None:
    """Runs, not pages: 9 bytes for each page of the address range were 2.4 GB of a TiB."""
    pid = hostile("sparse", 1000)
    [tib] = [m for m in smaps.read_smaps(Process.open(pid)) if m.size == 1 << 40 and m.private]
    with Memory(Process.open(pid)) as memory:
        span = memory.span(tib.start, tib.end)
        assert span.resident == tib.rss == 1000 * PAGE
        assert len(span.starts) == len(span.ends) == 1000
        assert len(list(span.multiples(2 * MIB))) <= 1000


@pytest.mark.parametrize("scan", [True, False], ids=["PAGEMAP_SCAN", "pagemap"])
def test_both_ways_to_find_what_is_present_agree(
    hostile: Callable[[str, int], int], monkeypatch: pytest.MonkeyPatch, scan: bool
) -> None:
    def refuses(*_: object) -> object:
        raise OSError(25, "Inappropriate ioctl for device")

    pid = hostile("alternate", 3000)
    [mapping] = [m for m in smaps.read_smaps(Process.open(pid)) if m.rss == 3000 * PAGE]
    if not scan:
        monkeypatch.setattr(pagemap_scan, "iterate_resident_runs", refuses)
    with Memory(Process.open(pid)) as memory:
        span = memory.span(mapping.start, mapping.end)
    assert list(span.starts) == list(range(mapping.start, mapping.end, 2 * PAGE))
    assert [end - PAGE for end in span.ends] == list(span.starts)


@pytest.mark.parametrize(
    ("kind", "count", "work", "most"),
    [
        ("alternate", 3000, Work.RUNS, 600),
        ("mappings", 2000, Work.MAPPINGS, 500),
        ("mappings", 2000, Work.TEXT, 1 << 20),
        ("threads", 200, Work.THREADS, 50),
        ("chunks", 2, Work.CHUNKS, 100_000),
        ("chunks", 8, Work.HEAPS, 3),
        ("chunks", 8, Work.PLACES, 3),
        ("caches", 2, Work.CACHES, 1000),
        ("bins", 2, Work.LINKS, 1000),
        ("blocks", 3000, Work.BLOCKS, 1000),
        ("alternate", 3000, Work.PAGES, 2048),
    ],
)
def test_a_bound_that_is_reached_is_said_and_the_look_goes_on(
    hostile: Callable[[str, int], int],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    count: int,
    work: Work,
    most: int,
) -> None:
    pid = hostile(kind, count)
    fewer(monkeypatch, work, most)
    look = snapshot.take_process_snapshot(Process.open(pid))
    found = build_ledger(look)
    assert [note for note in found.notes if f"it has more than {most:,} {work}" in note]
    assert sum(line.resident for line in found.lines) + found.rest == found.rss == look.rss
    assert found.rss > 0
    assert min(line.resident for line in found.lines) >= 0


@pytest.mark.parametrize(
    ("kind", "count"),
    [("chunks", 2), ("bins", 0), ("blocks", 3000), ("mappings", 2000), ("threads", 200)],
)
def test_without_a_bound_in_its_way_nothing_is_said(
    hostile: Callable[[str, int], int], kind: str, count: int
) -> None:
    found = snapshot.take_process_snapshot(Process.open(hostile(kind, count)))
    assert found.budget.notes == []
    if kind == "chunks" and isinstance(found.heap, GlibcHeap):
        # 32 bytes each, of two heaps of 64 MiB but for their heads and tops.
        assert sum(b.live_chunks for b in found.heap.arenas) > 2 * 2_000_000
        assert all(b.unread == 0 for b in found.heap.arenas)


def test_when_the_time_is_over_the_look_ends_and_adds_up(
    hostile: Callable[[str, int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = hostile("chunks", 4)
    monkeypatch.setattr(read_limits, "SECONDS", 0.05)
    look = snapshot.take_process_snapshot(Process.open(pid))
    found = build_ledger(look)
    assert any("reading was stopped" in note for note in found.notes)
    assert sum(line.resident for line in found.lines) + found.rest == found.rss


def test_a_look_without_time_does_not_say_that_the_process_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(read_limits, "PATIENCE", 0.0)
    with pytest.raises(Failure, match=r"time for a look was over .* DBALLOC_LOOK_SECONDS=60 gives"):
        snapshot.take_process_snapshot(Process.own())


def test_mimallocs_segments_end_too(
    monkeypatch: pytest.MonkeyPatch, hostile: Callable[[str, int], int]
) -> None:
    pid = hostile("segments", 40)
    mappings = [
        m
        for m in smaps.read_smaps(Process.open(pid))
        if m.private and m.size >= 40 * mimalloc_heap.SEGMENT
    ]
    with Memory(Process.open(pid)) as memory:
        whole = mimalloc_heap.walk_heap(memory, mappings)
    assert whole
    assert whole.statistics.holdings[0].bytes == 40 * 511 * 512 * 64
    fewer(monkeypatch, Work.SLICES, 5000)
    with Memory(Process.open(pid)) as memory:
        part = mimalloc_heap.walk_heap(memory, mappings)
        assert part
        assert 0 < part.statistics.holdings[0].bytes < whole.statistics.holdings[0].bytes
        assert any("slices of mimalloc's segments" in note for note in memory.budget.notes)


def test_a_false_libc_is_not_read_without_end(
    monkeypatch: pytest.MonkeyPatch, hostile: Callable[[str, int], int]
) -> None:
    """A library's writable data may be a TiB: so much is never held."""
    pid = hostile("sparse", 10)
    [tib] = [m for m in smaps.read_smaps(Process.open(pid)) if m.size == 1 << 40 and m.private]
    with Memory(Process.open(pid)) as memory:
        assert (
            glibc_heap.find_main_arena(memory, glibc_heap.LAYOUTS[0], [tib, tib], None, []) is None
        )
        assert any("bytes of its malloc's data" in note for note in memory.budget.notes)


@pytest.mark.parametrize("end", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_a_files_name_forges_no_mapping(end: str) -> None:
    """The kernel escapes the newline in it, and nothing else that ends a line for Python."""
    forged = f"{end}7f0000000000-7fffffffffff rw-p 00000000 00:00 0 {end}Rss: 99999999 kB{end}VmFlags: dd"
    [one, two] = smaps.parse_smaps(
        f"1000-2000 r--p 00000000 00:00 7 /tmp/a{forged}\nRss:                 4 kB\nVmFlags: rd mr\n"
        "3000-4000 rw-p 00000000 00:00 0 \nRss:                 8 kB\n"
    )
    assert (one.start, one.end, one.rss, one.flags) == (
        0x1000,
        0x2000,
        4096,
        frozenset({"rd", "mr"}),
    )
    assert one.path == f"/tmp/a{forged}"
    assert (two.start, two.rss) == (0x3000, 8192)


def test_a_process_has_any_name_that_it_likes(running_program: Callable[..., int]) -> None:
    """What is no UTF-8, and what ends a line for Python but not for the kernel."""
    pid = running_program(
        "named",
        """
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/prctl.h>
        int main(void) {
            void *volatile block = malloc(1);
            prctl(PR_SET_NAME, "\\xff\\rVmRSS: 9 kB");
            puts("ready");
            fflush(stdout);
            return getchar() == 0 && block;
        }
        """,
    )
    assert smaps.read_status_sizes(Process.open(pid))["VmRSS"] > 9 * 1024
    assert snapshot.take_process_snapshot(Process.open(pid)).rss > 9 * 1024


def test_threads_and_mappings_are_not_multiplied() -> None:
    """32,000 stack pointers in 65,000 mappings: 2,000 million comparisons took minutes."""
    mappings = smaps.parse_smaps(
        "".join(
            f"{START + i * 8192:x}-{START + i * 8192 + 4096:x} rw-p 0 00:00 0\nVmFlags: rd wr nh\n"
            for i in range(65_000)
        )
    )
    pointers = [START + i * 16384 + 8 for i in range(32_000)] + [START - 8, START + 4096, 1 << 62]
    steps = 0

    class Counted(int):
        def __le__(self, other: int) -> bool:
            nonlocal steps
            steps += 1
            return int(self) <= int(other)

        def __lt__(self, other: int) -> bool:
            nonlocal steps
            steps += 1
            return int(self) < int(other)

        __hash__ = int.__hash__

    kinds = classify_mappings(mappings, [Counted(p) for p in pointers], (), own_malloc=False)
    assert kinds.count(MappingKind.STACK) == 32_000
    assert steps < 40 * len(pointers)
