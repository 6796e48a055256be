"""Which files are shared libraries for this machine, and what is said of those that are not."""

import os
import struct
from pathlib import Path

import pytest

from dballoc.allocators import find_library
from dballoc.ground.errors import UsageError

X86_64, I386, AARCH64, SHARED, EXECUTABLE = 62, 3, 183, 3, 2

needs_x86 = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the table is written for x86-64"
)


def elf(machine: int = X86_64, bits: int = 2, kind: int = SHARED) -> bytes:
    """The head of an ELF file (elf(5)): bits 1 is 32, 2 is 64; little-endian."""
    return b"\x7fELF" + bytes([bits, 1, 1]) + bytes(9) + struct.pack("<HH", kind, machine)


@needs_x86
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (elf(AARCH64), "built for aarch64, but this machine is x86_64"),
        (elf(I386, bits=1), "built for i386 (32 bit), but this machine is x86_64"),
        (
            elf(X86_64, bits=1),
            "built for x86_64 (32 bit), but this machine is x86_64",
        ),  # the x32 ABI
        (elf(9999), "built for machine 9999, but this machine is x86_64"),
        (elf(kind=EXECUTABLE), "not a shared library"),
        (b"#!/bin/sh\necho this is a script\n", "not a shared library"),
        (b"\x7fELF", "not a shared library"),
        (b"", "not a shared library"),
    ],
)
def test_what_cannot_be_preloaded(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        find_library.check_library(path)
    assert str(caught.value) == f"preload {path}: {reason}"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("none.so", "No such file or directory"), ("", "is a directory, not a plain file")],
)
def test_what_is_not_there(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_library.make_allocator_of_files((tmp_path / name,))
    assert str(caught.value) == f"preload {tmp_path / name}: {reason}"


def test_a_library_just_built_is_one(c_library) -> None:
    path = c_library("mine", "int mine(void) { return 1; }")
    assert find_library.make_allocator_of_files((path,)).providers == (str(path),)


def test_glibc_is_always_here() -> None:
    glibc = find_library.find_allocator("glibc")
    assert (glibc.libraries, glibc.providers) == ((), ("libc.so.6",))
    assert glibc.version == os.confstr("CS_GNU_LIBC_VERSION").split()[1]


def test_one_that_is_not_here_comes_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_library, "find_shared_library", lambda soname: None)
    find_library.find_allocator.cache_clear()
    with pytest.raises(UsageError) as caught:
        find_library.find_allocator("jemalloc")
    find_library.find_allocator.cache_clear()
    assert str(caught.value) == (
        "allocator 'jemalloc' is not on this machine: no libjemalloc.so.2 or libjemalloc.so.1; install it: apt-get install libjemalloc2, or dballoc fetch jemalloc"
    )


def test_one_that_nobody_knows() -> None:
    with pytest.raises(UsageError, match=r"no allocator 'jemaloc'; did you mean 'jemalloc'\?"):
        find_library.find_allocator("jemaloc")
