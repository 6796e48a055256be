"""Sizes of pages: of a process, from what its kernel told it; and the walk of a heap with larger
ones than this machine's.
"""

import os
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captured_run import run_captured
from dballoc.ground.errors import Failure
from dballoc.host.process.handle import Process, parse_auxiliary
from dballoc.process import snapshot
from dballoc.process.snapshot import parse_page_size

PAGE = os.sysconf("SC_PAGE_SIZE")
HERE = Path(__file__).parent


def auxv(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack("=2Q", *entry) for entry in entries)


def test_ours_is_the_kernels() -> None:
    assert parse_page_size(Process.own().read_auxiliary()) == PAGE


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (auxv((16, 7), (6, 4096), (0, 0)), 4096),
        (auxv((6, 65536)), 65536),
        (auxv((6, 5000), (0, 0)), None),
        (auxv((6, 1 << 63), (0, 0)), None),
        (auxv((0, 0), (6, 4096)), None),  # behind the end
        (auxv((16, 7)), None),
        (auxv((6, 4096))[:-1], None),
        (b"", None),
    ],
)
def test_it_is_parsed_from_the_vector(data: bytes, size: int | None) -> None:
    assert parse_page_size(parse_auxiliary(data)) == size


@given(st.binary(max_size=200))
def test_any_vector_is_a_size_or_none(data: bytes) -> None:
    assert parse_page_size(parse_auxiliary(data)) in (None, 4096, 8192, 16384, 32768, 65536)


def test_a_process_with_others_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "PAGE", 16 * PAGE)
    with pytest.raises(Failure, match="it runs emulated"):
        snapshot.take_process_snapshot(Process.own())


LARGER = """
import os, sys
real = os.sysconf
os.sysconf = lambda name: {size} if name in ("SC_PAGE_SIZE", "SC_PAGESIZE") else real(name)
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-k", {chosen!r}, {path!r}]))
"""


@pytest.mark.parametrize(
    ("size", "chosen"),
    [
        (65536, "not hostile and not changes"),
        pytest.param(16384, "", marks=pytest.mark.slow),
        pytest.param(65536, "", marks=pytest.mark.slow),
    ],
)
def test_a_heap_is_walked_with_larger_pages(size: int, chosen: str) -> None:
    """The tests of made images, in an interpreter that is told of such pages."""
    code = LARGER.format(size=size, path=str(HERE / "test_heap_image.py"), chosen=chosen)
    done = run_captured([sys.executable, "-c", code], timeout=300)
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
