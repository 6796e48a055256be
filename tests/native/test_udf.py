"""The loadable functions, called as a server calls them, under every malloc that is here: what it
says is what was asked for.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from machine import MACHINE
from programs import compiled, starting

from dballoc.evidence.sql import allocator_statistics
from dballoc.explain.ledger.ledger import build_ledger
from dballoc.explain.ledger.ledger_line import UNACCOUNTED
from dballoc.host.process.handle import Process
from dballoc.process import snapshot
from dballoc.process.heaps.allocator_statistics import CACHES, HELD
from dballoc.process.heaps.glibc_arenas import GlibcHeap
from dballoc.process.mapping_kind import MappingKind

HERE = Path(__file__).parent
# What the program asks for, beside what is rounded up to size classes: at most an eighth, and what
# libc and threads have.
ROUNDING = 1.125

Ran = tuple[int, list[str], int]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("udf_server", tmp_path_factory.mktemp("udf"), "-ldl")


@pytest.fixture
def run(program: Path, native_library: Callable[[str], Path]) -> Iterator[Callable[..., Ran]]:
    """``run("jemalloc", "malloc_stats")``: the bytes that the program has asked for, what the
    functions say, its PID.
    """
    with starting() as start:

        def ran(allocator: str, *names: str) -> Ran:
            preload = ":".join(map(str, MACHINE.find_libraries(allocator)))
            running = start(program, native_library("udf"), *names, LD_PRELOAD=preload)
            return int(running.said[0]), running.said[1:], running.pid

        yield ran


@pytest.mark.parametrize(
    "allocator", ["glibc", "jemalloc", "tcmalloc", "tcmalloc-full", "google-tcmalloc", "scudo"]
)
def test_what_is_live_is_what_was_asked_for(run: Callable[..., Ran], allocator: str) -> None:
    asked, [text], pid = run(allocator, "malloc_stats")
    found = allocator_statistics.parse_statistics(text)
    assert found.live is not None
    assert asked <= found.live <= asked * ROUNDING
    # Half of what three threads asked for is given back: it is in a cache, or free in pages that
    # stay.
    kept = sum(h.bytes for h in found.holdings if h.owner in (CACHES, HELD))
    assert kept >= 3 * 10000 * 1000
    # scudo counts as free what it has made ready, and nobody has had yet.
    assert kept <= 3 * 10000 * 1000 * (1.3 if allocator == "scudo" else 1.1)
    look = snapshot.take_process_snapshot(Process.open(pid))
    made = build_ledger(look, None, found)
    assert sum(line.resident for line in made.lines) + made.rest == made.rss == look.rss
    if allocator != "glibc":
        left_out = sum(line.resident for line in made.lines if line.owner == UNACCOUNTED)
        whole = sum(
            m.rss
            for m, kind in zip(look.mappings, look.kinds, strict=True)
            if kind is MappingKind.MALLOC
        )
        assert left_out < 0.02 * whole or allocator == "scudo"
    assert [note for note in made.notes if "itself says" in note] == []


@pytest.mark.parametrize("allocator", ["mimalloc", "tbbmalloc"])
def test_one_that_does_not_count_says_so(run: Callable[..., Ran], allocator: str) -> None:
    _, [text], _ = run(allocator, "malloc_stats")
    found = allocator_statistics.parse_statistics(text)
    assert found.live is None
    assert found.notes


@pytest.mark.parametrize("allocator", ["mimalloc", "mimalloc@2.3.2"])
def test_what_it_does_not_count_is_walked_from_outside(
    run: Callable[..., Ran], allocator: str
) -> None:
    asked, _, pid = run(allocator)
    look = snapshot.take_process_snapshot(Process.open(pid))
    assert look.heap
    account = look.heap.statistics
    assert account.live is not None
    assert asked <= account.live <= asked * ROUNDING
    assert [b.size // 1000000 for b in look.heap.blocks if b.size > 1000000] == [3] * 4
    held = sum(h.bytes for h in account.holdings if h.owner == HELD)
    assert held == pytest.approx(3 * 10000 * 1000, rel=0.1)
    made = build_ledger(look)
    assert sum(line.resident for line in made.lines) + made.rest == made.rss == look.rss
    left_out = sum(line.resident for line in made.lines if line.owner == UNACCOUNTED)
    assert left_out < 0.02 * made.rss
    assert made.tiers == ["outside"]


@pytest.mark.parametrize(
    ("allocator", "called"),
    [
        ("glibc", "malloc_trim(0)"),
        ("jemalloc", "arena.4096.purge"),
        ("tcmalloc", "MallocExtension_ReleaseFreeMemory()"),
        ("mimalloc", "mi_collect(true)"),
        ("tbbmalloc", "scalable_allocation_command(TBBMALLOC_CLEAN_ALL_BUFFERS)"),
    ],
)
def test_memory_is_given_back_when_asked(
    run: Callable[..., Ran], allocator: str, called: str
) -> None:
    _, [before, text, after], _ = run(allocator, "malloc_stats", "malloc_trim", "malloc_stats")
    assert allocator_statistics.parse_trim_answer(text) == called
    one, other = (allocator_statistics.parse_statistics(x) for x in (before, after))
    if one.live is not None and other.live is not None:
        # Nothing that is in use goes.
        assert other.live == pytest.approx(one.live, rel=0.01)


def test_every_arena_is_told_and_no_list_of_sizes(run: Callable[..., Ran]) -> None:
    _, [text], pid = run("glibc", "malloc_stats")
    said: dict[str, Any] = json.loads(text)
    assert "<size" not in said["malloc_info"]
    heap = snapshot.take_process_snapshot(Process.open(pid)).heap
    assert isinstance(heap, GlibcHeap)
    assert len(re.findall("<heap ", said["malloc_info"])) == len(heap.arenas)
    assert said["mallinfo2"]["hblkhd"] == sum(b.size for b in heap.blocks)


def test_it_runs_on_every_glibc(native_library: Callable[[str], Path]) -> None:
    """The library is copied into containers of older systems."""
    said = subprocess.run(
        ["objdump", "-T", native_library("udf")], capture_output=True, text=True, check=True
    ).stdout
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", said)}
    assert versions
    assert max(versions) <= (2, 17)
    assert set(re.findall(r"\b(dballoc_\w+)$", said, re.MULTILINE)) == {
        f"dballoc_malloc_{name}{suffix}"
        for name in ("stats", "trim")
        for suffix in ("", "_init", "_deinit")
    }


def build_text_program(directory: Path) -> Path:
    """Build the program that writes into a buffer of the size that it is given."""
    flags = "-std=c17 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -fsanitize=address,undefined"
    sources = [HERE / "text.c", HERE.parents[1] / "native/udf/text.c"]
    program = directory / "text"
    subprocess.run(["cc", *flags.split(), "-o", program, *sources], check=True)
    return program


def test_what_does_not_fit_is_left_out_and_said(tmp_path: Path) -> None:
    program = build_text_program(tmp_path)
    kept = []
    for size in [*range(110, 200), 500, 1000, 4000, 6000]:
        done = subprocess.run([program, str(size)], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        assert said["path"] == '/a "b"\\\n\xff'
        assert [entry["index"] for entry in said["list"]] == list(range(len(said["list"])))
        kept.append((len(said["list"]), "tail" in said, said.get("cut", False)))
        assert said.get("cut", False) == (len(said["list"]) < 100 or "tail" not in said)
    assert kept == sorted(kept, key=lambda k: k[0])
    assert kept[-1] == (100, True, False)


@pytest.fixture(scope="module")
def hammer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("hammer", tmp_path_factory.mktemp("hammer"), "-ldl")


@pytest.mark.parametrize(("threads", "slow"), [(1, 0), (4, 0), (4, 20)])
def test_malloc_is_asked_for_a_fiftieth_of_the_time(
    hammer: Path,
    native_library: Callable[[str], Path],
    preload: Callable[[str], Path],
    threads: int,
    slow: int,
) -> None:
    """However often any account calls it: malloc_info takes the lock of every arena, and threads
    that allocate wait for it.
    """
    with starting() as start:
        said = start(
            hammer,
            native_library("udf"),
            threads,
            2000,
            LD_PRELOAD=str(preload("slow_statistics")),
            SLOW_INFO=str(slow),
        ).said
    calls, real, took, beside, without = map(int, said[0].split())
    print(
        f"{threads} threads: {calls} calls, {real} of malloc's, in {took} ms; allocating {without / max(1, beside):.2f} times as slow"
    )
    assert calls >= 20 * real
    # Ten times a second at most, and the next one not before fifty times what the last one took.
    assert 1 <= real <= took / max(100, 50 * slow) + 1
    text = json.loads(said[1])
    assert text["format"] == 1
    assert 0 <= text["age_ms"] <= took
    assert text["took_us"] >= 1000 * slow
    found = allocator_statistics.parse_statistics(said[1])
    assert found.allocator == "glibc"
    assert found.age == text["age_ms"] / 1000


def test_figures_that_are_old_say_so() -> None:
    text = {"format": 1, "age_ms": 2600, "took_us": 60_000, "allocator": "mimalloc"}
    fresh = allocator_statistics.parse_statistics(json.dumps(text | {"age_ms": 0}))
    assert (fresh.age, fresh.took) == (0, 0.06)
    old = allocator_statistics.parse_statistics(json.dumps(text))
    assert (old.age, old.took) == (2.6, 0)
    assert len(old.notes) == len(fresh.notes) + 1
    assert "the statistics of mimalloc are 3 s old" in old.notes[-1]
    with pytest.raises(allocator_statistics.UnreadableStatistics):
        allocator_statistics.parse_statistics(json.dumps(text | {"age_ms": "soon"}))


def test_a_buffer_too_small_for_anything_stays_what_it_is(tmp_path: Path) -> None:
    """Nothing is written beyond it, and what is there is JSON."""
    program = build_text_program(tmp_path)
    for size in range(1, 110):
        environ = {"ASAN_OPTIONS": "detect_leaks=0"}  # the program ends early
        done = subprocess.run([program, str(size)], env=environ, capture_output=True, check=False)
        assert done.stderr == b"", size
        assert done.returncode == 1 or not done.stdout or json.loads(done.stdout)["cut"] is True
