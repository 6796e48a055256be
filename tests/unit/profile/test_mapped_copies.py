"""Copies of a process's files that contradict each other, or grow while they are copied."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dballoc.host.process.handle import Process
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.profile.contention.mapped_copies import MappedCopies, copy_mapped_files
from hostile_files import HostileFile, can_mount, serve_files

MIB = 1 << 20


def open_as(files: Mapping[str, Path]) -> Callable[[str], int]:
    return lambda path: os.open(files[path], os.O_RDONLY)


def make_copies(place: Path, files: Mapping[str, Path], most: int = 100 * MIB) -> Path:
    tree = place / "files"
    copies = MappedCopies(tree, ServerUser(None), most)
    for path in files:
        copies.add(path, open_as(files))
    return tree


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


MAPPER = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
print("mapped", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not can_mount(), reason="needs /dev/fuse, whose files may never answer")
@pytest.mark.parametrize("call", ["open", "read", "getattr"])
def test_a_file_that_never_answers_is_left_out_and_named(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setenv("DBALLOC_LOOK_SECONDS", "1.5")
    with serve_files(tmp_path) as served:
        path = served.put("lib.so", HostileFile(content=b"x" * 4096))
        with subprocess.Popen(
            [sys.executable, "-c", MAPPER, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as mapper:
            assert mapper.stdout
            assert mapper.stdout.readline() == "mapped\n"
            served.put("lib.so", HostileFile(content=b"x" * 4096, waits=(call,)))
            began = time.monotonic()
            notes = copy_mapped_files(
                Process.open(mapper.pid), place / "files", ServerUser(None), False
            )
            lasted = time.monotonic() - began
            executable = Path(f"/proc/{mapper.pid}/exe").readlink()
            mapper.communicate("", timeout=60)
    assert lasted < 9, notes
    assert len(notes) == 1
    assert str(tmp_path / "hostile") in notes[0]
    copied = place / "files" / executable.relative_to("/")
    assert copied.read_bytes() == executable.read_bytes()
