"""The cache of symbol tables has a bound, and goes by what was used last."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dballoc.profile.symbols import symbols
from dballoc.profile.symbols.symbols import TableCache, choose_superfluous

KIB = 1024


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DBALLOC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "symbols"


@pytest.fixture
def cache(place: Path, tmp_path: Path) -> Iterator[TableCache]:
    """One that has room for two tables of 64 KiB."""
    with symbols.open_cache():
        pass  # the directory is made
    directory = os.open(place, os.O_RDONLY)
    yield TableCache(directory, most=150 * KIB)
    os.close(directory)


def keep(cache: TableCache, name: str) -> None:
    cache.make_table(name, lambda fd: os.write(fd, b"x" * 64 * KIB))
    time.sleep(0.01)  # another time of change


def use(cache: TableCache, name: str) -> bool:
    fd = cache.open_table(name)
    if fd is not None:
        os.close(fd)
        time.sleep(0.01)
    return fd is not None


def test_what_was_not_used_for_longest_makes_room(cache: TableCache, place: Path) -> None:
    keep(cache, "a")
    keep(cache, "b")
    assert use(cache, "a")
    keep(cache, "c")
    assert sorted(path.stem for path in place.iterdir()) == ["a", "c"]
    assert not use(cache, "b")


def test_nothing_behind_a_link_is_removed(cache: TableCache, place: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"x" * 64 * KIB)
    (place / "link.symcache").symlink_to(other)
    (place / "directory").mkdir()
    for name in ("a", "b", "c"):
        keep(cache, name)
    assert other.stat().st_size == 64 * KIB
    assert not use(cache, "link")
    assert use(cache, "c")


def test_a_table_that_cannot_be_written_leaves_nothing(cache: TableCache, place: Path) -> None:
    def fail(fd: int) -> None:
        os.write(fd, b"x")
        raise ValueError

    with suppress(ValueError):
        cache.make_table("a", fail)
    assert list(place.iterdir()) == []


def test_the_last_used_stay() -> None:
    tables = [(3, "c", 10), (1, "a", 10), (4, "d", 10), (2, "b", 10)]
    assert choose_superfluous(tables, 40) == []
    assert choose_superfluous(tables, 39) == ["a"]
    assert sorted(choose_superfluous(tables, 20)) == ["a", "b"]
    assert sorted(choose_superfluous(tables, 9)) == ["a", "b", "c", "d"]
