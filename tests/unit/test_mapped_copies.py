"""Copies of a process's files that contradict each other, or grow while they are copied."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.profile.contention.mapped_copies import Copies

MIB = 1 << 20


def open_as(files: Mapping[str, Path]) -> Callable[[str], int]:
    return lambda path: os.open(files[path], os.O_RDONLY)


def make_copies(place: Path, files: Mapping[str, Path], most: int = 100 * MIB) -> Path:
    copies = Copies(place, ServerUser(None), most)
    for path in files:
        copies.add(path, open_as(files))
    return copies.tree


def measure(place: Path) -> int:
    """Bytes of all that is below a directory; a file with two names counts once."""
    files = {path.stat().st_ino: path.stat().st_size for path in place.rglob("*") if path.is_file()}
    return sum(files.values())


@pytest.fixture
def originals(tmp_path: Path) -> Path:
    place = tmp_path / "originals"
    place.mkdir()
    for name in "abc":
        (place / name).write_bytes(name.encode() * MIB)
    return place


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "scratch"
    path.mkdir()
    return path


def test_paths_that_contradict_each_other(originals: Path, place: Path) -> None:
    files = {
        "/a (deleted)": originals / "a",
        "/a (deleted)/b": originals / "b",
        "/lib/c": originals / "c",
        "/lib": originals / "b",
        "/usr/lib/c": originals / "c",
    }
    tree = make_copies(place, files)
    copied = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    assert copied == {"a (deleted)", "lib/c", "usr/lib/c"}
    assert (tree / "a (deleted)").read_bytes() == b"a" * MIB
    assert (tree / "lib/c").samefile(tree / "usr/lib/c")


def test_a_path_stays_in_the_tree(originals: Path, place: Path, tmp_path: Path) -> None:
    bad = (
        "/../../x",
        "/./x",
        "/lib//x",
        "/" + "x" * 300,
        "/" + "/".join("x" * 200 for _ in "x" * 30),
    )
    tree = make_copies(place, {**dict.fromkeys(bad, originals / "a"), "/ok": originals / "b"})
    assert [path for path in tree.rglob("*") if path.is_file()] == [tree / "ok"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["originals", "scratch"]


def test_there_is_a_bound_for_all(originals: Path, place: Path) -> None:
    files = {f"/{name}": originals / name for name in "abc"}
    tree = make_copies(place, files, most=2 * MIB)
    assert sorted(path.name for path in tree.iterdir()) == ["a", "b"]


def test_a_file_that_grows_while_it_is_copied(
    originals: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It grows with each piece that is read, as one of a file system of the target's would."""
    growing = originals / "a"
    read = os.read

    def read_and_grow(fd: int, count: int) -> bytes:
        piece = read(fd, count)
        if Path(f"/proc/self/fd/{fd}").samefile(growing) and growing.stat().st_size < 50 * MIB:
            with growing.open("ab") as file:
                file.write(piece * 2)
        return piece

    monkeypatch.setattr(os, "read", read_and_grow)
    files = {"/a": growing, "/b": originals / "b"}
    tree = make_copies(place, files, most=4 * MIB)
    assert growing.stat().st_size > 8 * MIB
    assert [path.name for path in tree.iterdir()] == ["b"]
    assert measure(place) == MIB


def test_a_file_that_shrinks_or_ends_early(originals: Path, place: Path) -> None:
    (originals / "a").write_bytes(b"")
    tree = make_copies(place, {"/a": originals / "a"})
    assert (tree / "a").read_bytes() == b""
