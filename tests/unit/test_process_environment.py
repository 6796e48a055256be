"""The environment of a process, as glibc leaves it."""

import os
import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from dballoc.host.process_environment import parse_environment


def test_tunables_that_glibc_took_apart_are_joined_again() -> None:
    raw = b"A=1\0GLIBC_TUNABLES=glibc.malloc.arena_max=1\0glibc.malloc.top_pad=4096\0B=2\0"
    assert parse_environment(raw) == {
        "A": "1",
        "GLIBC_TUNABLES": "glibc.malloc.arena_max=1:glibc.malloc.top_pad=4096",
        "B": "2",
    }


def test_nothing_else_is_joined() -> None:
    raw = b"A=1\0glibc.malloc.top_pad=4096\0no variable\0B=a=b\0"
    assert parse_environment(raw) == {"A": "1", "glibc.malloc.top_pad": "4096", "B": "a=b"}


def test_this_machines_glibc() -> None:
    tunables = "glibc.malloc.arena_max=1:glibc.malloc.top_pad=4096:glibc.malloc.mxfast=64"
    child = subprocess.Popen(
        ["cat"],
        env={**os.environ, "GLIBC_TUNABLES": tunables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdin
        assert child.stdout
        # What it writes shows that its loader has read the environment.
        child.stdin.write(b"x")
        child.stdin.flush()
        assert child.stdout.read(1) == b"x"
        raw = Path(f"/proc/{child.pid}/environ").read_bytes()
    finally:
        child.kill()
        child.communicate()
    assert parse_environment(raw)["GLIBC_TUNABLES"] == tunables


@given(st.binary(max_size=200))
def test_any_bytes_are_an_environment(raw: bytes) -> None:
    assert all(isinstance(value, str) for value in parse_environment(raw).values())
