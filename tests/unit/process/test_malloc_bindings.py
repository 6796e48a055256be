"""The bindings of a running process, read from outside."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dballoc.ground.errors import Failure
from dballoc.host.elf import loader
from dballoc.host.process.handle import Process
from dballoc.process.malloc import malloc_bindings

pytestmark = pytest.mark.unprivileged

# Calls malloc through a slot, then waits for its standard input to close.
USES_MALLOC = """
#include <stdio.h>
#include <stdlib.h>
int main(void) { free(malloc(10)); puts("ready"); fflush(stdout); return getchar() == 0; }
"""
OWN_MALLOC = """
#include <stddef.h>
static _Alignas(16) char heap[1 << 20]; static size_t used;
void *malloc(size_t n) { void *p = heap + used; used += (n + 15) & ~(size_t)15; return p; }
void free(void *p) { (void)p; }
"""


def bind(pid: int) -> dict[str, str]:
    return malloc_bindings.read_bindings(Process.open(pid))


@pytest.mark.parametrize("binding", ["now", "lazy"])
def test_leads_to_libc(running_program: Callable[..., int], binding: str) -> None:
    found = bind(running_program("uses", USES_MALLOC, f"-Wl,-z,{binding}"))
    assert {Path(found[name]).name for name in ("malloc", "free")} == {"libc.so.6"}
    assert "calloc" not in found


def test_leads_to_a_preloaded_library(
    running_program: Callable[..., int], c_library: Callable[[str, str], Path]
) -> None:
    library = c_library("own", OWN_MALLOC)
    found = bind(running_program("uses", USES_MALLOC, preload=str(library)))
    assert Path(found["malloc"]) == library


def test_a_program_with_its_own_malloc_says_so(running_program: Callable[..., int]) -> None:
    found = bind(running_program("owns", USES_MALLOC + OWN_MALLOC, "-rdynamic", "-fPIC"))
    # Called directly, or through a slot that leads to itself; never to libc.
    assert Path(found.get("malloc", "owns")).name == "owns"


def test_a_static_program_has_no_bindings(running_program: Callable[..., int]) -> None:
    assert bind(running_program("static", USES_MALLOC, "-static")) == {}


def test_no_such_process() -> None:
    with pytest.raises(Failure, match="No such"):
        malloc_bindings.read_bindings(Process(2**22 + 1, 0, Path(f"/proc/{2**22 + 1}")))


def test_what_the_loader_was_given_is_the_program(running_program: Callable[..., int]) -> None:
    pid = running_program("uses", USES_MALLOC, through_loader=True)
    assert Path(os.readlink(f"/proc/{pid}/exe")).name.startswith("ld-linux")
    assert Path(bind(pid)["malloc"]).name == "libc.so.6"
    assert Path(loader.find_main_program(Process.open(pid))).name == "uses"


@pytest.mark.parametrize(
    ("words", "at"),
    [
        (["ld.so", "/sbin/mariadbd", "--no-defaults"], 1),
        (
            [
                "ld.so",
                "--library-path",
                "/a:/b",
                "--inhibit-cache",
                "--preload",
                "/x.so",
                "/sbin/mysqld",
            ],
            6,
        ),
        (["ld.so", "--argv0", "mysqld", "/sbin/mysqld", "--preload", "x"], 3),
        (["ld.so", "--help"], None),
        (["ld.so", "--preload"], None),
        (["ld.so"], None),
    ],
)
def test_the_program_stands_behind_the_loaders_own_options(
    words: list[str], at: int | None
) -> None:
    assert loader.find_program_index(words) == at


@pytest.mark.parametrize(
    ("path", "is_it"),
    [
        ("/lib64/ld-linux-x86-64.so.2", True), ("/lib/ld-linux-aarch64.so.1", True), ("/lib/ld-2.31.so", True),
        ("/usr/bin/ld.so", True), ("/usr/sbin/mysqld", False), ("/usr/bin/ld", False), ("/lib/ld-musl.so.x", False),
    ],
)  # fmt: skip
def test_a_loader_is_known_by_its_name(path: str, is_it: bool) -> None:
    assert loader.is_loader(path) is is_it
