"""Executables made to run on other libraries: what is changed in a copy, and what cannot be."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dballoc.ground.errors import UsageError
from dballoc.host.elf import patch_elf
from dballoc.servers import relink
from dballoc.servers.build import Build

PROGRAM = "int printf(const char *, ...); int own(void) __attribute__((weak)); int main(void) { return own ? own() : 0; }"


@pytest.fixture
def build(tmp_path: Path, c_library: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Build:
    """A program that is linked against libown.so, which it can do without, in a directory next to
    it.
    """
    monkeypatch.setenv("DBALLOC_CACHE", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").mkdir()
    c_library("own", "int own(void) { return 7; }", tmp_path / "lib")
    source, program = tmp_path / "p.c", tmp_path / "bin/mysqld"
    source.write_text(PROGRAM)
    subprocess.run(
        [
            "cc",
            "-o",
            program,
            source,
            "-Wl,--no-as-needed",
            tmp_path / "lib/libown.so",
            "-Wl,-rpath,$ORIGIN/../lib",
        ],
        check=True,
    )
    patch_elf.relink(program, None, ["$ORIGIN/../lib"])
    return Build(
        family="mysql",
        version="8.0.1",
        executable=program,
        basedir=tmp_path,
        share=tmp_path / "share",
        plugins=None,
    )


def status(build: Build) -> int:
    return subprocess.run([build.executable], check=False).returncode


def test_nothing_to_change_is_the_build_itself(build: Build) -> None:
    assert relink.relinked(build) is build


def test_a_copy_without_a_library(build: Build) -> None:
    soname = next(n for n in patch_elf.read_needed_libraries(build.executable) if "libown" in n)
    copy = relink.relinked(build, None, [soname])
    assert soname not in patch_elf.read_needed_libraries(copy.executable)
    assert soname in patch_elf.read_needed_libraries(build.executable)
    assert (status(build), status(copy)) == (7, 0)
    assert (copy.executable.name, copy.basedir) == ("mysqld", build.basedir)


def test_a_copy_on_another_loader_finds_the_libraries_where_they_were(build: Build) -> None:
    found = patch_elf.read_interpreter(build.executable)
    assert found
    loader = Path(found).resolve()
    copy = relink.relinked(build, loader)
    assert patch_elf.read_interpreter(copy.executable) == str(loader)
    assert patch_elf.read_search_path(copy.executable) == [
        str(loader.parent),
        f"{build.executable.parent}/../lib",
    ]
    assert status(copy) == 7


def test_a_copy_is_made_once_for_the_same_executable(build: Build) -> None:
    found = patch_elf.read_interpreter(build.executable)
    assert found
    loader = Path(found).resolve()
    first = relink.relinked(build, loader).executable
    made = first.stat().st_mtime_ns, first.stat().st_ino
    assert relink.relinked(build, loader).executable == first
    assert (first.stat().st_mtime_ns, first.stat().st_ino) == made
    subprocess.run(["touch", build.executable], check=True)
    assert relink.relinked(build, loader).executable != first


def test_a_library_that_it_does_not_name_cannot_be_taken_away(build: Build) -> None:
    with pytest.raises(UsageError, match=r"another library that it needs loads libtcmalloc\.so\.4"):
        relink.relinked(build, None, ["libtcmalloc.so.4"])


def test_what_is_no_executable(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert not patch_elf.is_elf(script)
    assert not patch_elf.is_elf(tmp_path / "none")
    link = tmp_path / "link"
    link.symlink_to("/bin/sh")
    assert not patch_elf.is_elf(link)
