"""glibc's heap walked from outside, against what malloc_info(3) says of it inside."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from programs import compiled, starting

from captured_run import run_captured
from dballoc.explain.ledger.ledger import build_ledger
from dballoc.fetch import private_store
from dballoc.host.process.handle import Process
from dballoc.process import snapshot
from dballoc.process.heaps.glibc_arenas import GlibcHeap
from dballoc.process.snapshot import ProcessSnapshot

Look = Callable[..., tuple[str, ProcessSnapshot]]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("heap", tmp_path_factory.mktemp("heap"))


@pytest.fixture
def look(program: Path) -> Iterator[Look]:
    """``look(GLIBC_TUNABLES=…)``: what malloc_info says of the running program, and a look
    at it.
    """
    with starting() as start:

        def looked(executable: Path = program, **variables: str) -> tuple[str, ProcessSnapshot]:
            running = start(executable, **variables)
            return "".join(running.said), snapshot.take_process_snapshot(Process.open(running.pid))

        yield looked


@pytest.mark.parametrize(
    "arenas", [{}, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}], ids=["many arenas", "one arena"]
)
def test_every_arena_is_as_malloc_info_says(look: Look, arenas: dict[str, str]) -> None:
    said, found = look(**arenas)
    assert found.heap
    assert found.heap.statistics.notes == []
    assert len(_same(said, found)) == (1 if arenas else 7)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.41", "2.43"])
def test_every_glibc_that_can_be_fetched(
    look: Look, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "DBALLOC_STORE", tempfile.gettempdir() + f"/dballoc-test-store-{os.getuid()}"
    )
    Path(os.environ["DBALLOC_STORE"]).mkdir(mode=0o755, exist_ok=True)
    done = run_captured([sys.executable, "-m", "dballoc", "fetch", f"glibc@{version}"])
    kept = private_store.find_fetched("glibc", version)
    if kept is None or kept.loader is None:
        pytest.skip(done.stderr)
    program = compiled(
        "heap", tmp_path, f"-Wl,-dynamic-linker,{kept.loader}", f"-Wl,-rpath,{kept.loader.parent}"
    )
    refused = run_captured([program], stdin=subprocess.DEVNULL)
    if refused.returncode:
        pytest.skip(
            f"this system's compiler makes programs that glibc {version} is too old for: {refused.stderr.strip()}"
        )
    said, found = look(program)
    assert found.heap
    assert found.malloc.version == version
    assert len(_same(said, found)) == 7
    made = build_ledger(found)
    assert abs(made.rest) <= 0.01 * found.rss
    # Seven blocks of each size up to 1,032 bytes, or more since 2.43, of six threads that freed
    # thousands.
    assert (
        sum(line.resident for line in made.lines if line.owner == "threads' caches (tcache)")
        > 6 * 7 * 32
    )


def _same(said: str, found: ProcessSnapshot) -> list[tuple[int, int, int]]:
    """What malloc_info says of each arena: system, fast, free bytes. Fails where the walk says
    anything else.
    """
    assert isinstance(found.heap, GlibcHeap)
    inside = []
    for part in re.findall(r'<heap nr="\d+">(.*?)</heap>', said, re.DOTALL):
        numbers = {
            name: (int(n), int(size))
            for name, n, size in re.findall(r'"(fast|rest)" count="(\d+)" size="(\d+)"', part)
        }
        [system] = re.findall(r'<system type="current" size="(\d+)"', part)
        # malloc_info adds up sizes with the flag in them that the chunk before is in use; but for
        # the top chunk's.
        free = numbers["rest"][1] - (numbers["rest"][0] - 1)
        inside.append((int(system), numbers.get("fast", (0, 0))[1], free))
    assert sorted((b.system, b.fast, b.free) for b in found.heap.arenas) == sorted(inside)
    return inside


def test_blocks_mapped_by_themselves_are_as_malloc_info_says(look: Look) -> None:
    said, found = look()
    assert isinstance(found.heap, GlibcHeap)
    mapped = re.search(r'"mmap" count="(\d+)" size="(\d+)"', said)
    assert mapped
    blocks = [block for blocks in found.heap.mapped.values() for block in blocks]
    assert (len(blocks), sum(b.size for b in blocks)) == (int(mapped[1]), int(mapped[2]))


def test_the_ledger_adds_up(look: Look) -> None:
    _, found = look()
    books = build_ledger(found)
    assert books.rss == sum(line.resident for line in books.lines) + books.rest
    assert abs(books.rest) <= 0.01 * books.rss
    held = next(line for line in books.lines if line.owner == "threads' caches (tcache)")
    # Seven blocks of each size up to 1,032 bytes, of six threads that freed thousands.
    assert held.resident > 6 * 7 * 32
