"""The bindings of a running process, read from outside."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from dballoc.allocators import running

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


@pytest.mark.parametrize("binding", ["now", "lazy"])
def test_leads_to_libc(running_program: Callable[..., int], binding: str) -> None:
    found = running.bindings(running_program("uses", USES_MALLOC, f"-Wl,-z,{binding}"))
    assert {Path(found[name]).name for name in ("malloc", "free")} == {"libc.so.6"}
    assert "calloc" not in found


def test_leads_to_a_preloaded_library(running_program: Callable[..., int], c_library: Callable[[str, str], Path]) -> None:
    library = c_library("own", OWN_MALLOC)
    found = running.bindings(running_program("uses", USES_MALLOC, preload=str(library)))
    assert Path(found["malloc"]) == library


def test_a_program_with_its_own_malloc_says_so(running_program: Callable[..., int]) -> None:
    found = running.bindings(running_program("owns", USES_MALLOC + OWN_MALLOC, "-rdynamic", "-fPIC"))
    # Called directly, or through a slot that leads to itself; never to libc.
    assert Path(found.get("malloc", "owns")).name == "owns"


def test_a_static_program_is_refused(running_program: Callable[..., int]) -> None:
    with pytest.raises(running.Unreadable, match="static"):
        running.bindings(running_program("static", USES_MALLOC, "-static"))


def test_no_such_process() -> None:
    with pytest.raises(running.Unreadable, match="No such"):
        running.bindings(2**22 + 1)


@pytest.mark.parametrize("cut", [3, 40, 70, 500, 2000])
def test_a_damaged_image_is_refused_not_followed(cut: int) -> None:
    whole = Path("/bin/true").read_bytes()
    with pytest.raises((running.Unreadable, struct.error, IndexError)):
        running._slots(running._parse(whole[:cut]))
