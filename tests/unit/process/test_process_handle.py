"""A process as it is opened: whether it is still the same one, and what the kernel shows of it."""

import os
import pickle
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.ground.errors import Failure
from dballoc.host.abandonable.abandonable_work import run_abandonable
from dballoc.host.process import handle
from dballoc.host.process.handle import Process, parse_environment, parse_users, split_stat


@pytest.fixture(params=["with a pidfd", "without"])
def child(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Process, "subprocess.Popen[bytes]"]]:
    if request.param == "without":  # as before Linux 5.3
        monkeypatch.delattr(os, "pidfd_open")
    with subprocess.Popen(["sleep", "60"]) as started:
        yield Process.open(started.pid), started
        started.kill()


def test_one_that_ends_is_known_here_and_in_a_child(
    child: tuple[Process, "subprocess.Popen[bytes]"],
) -> None:
    process, started = child
    process.check_running()
    look = lambda: process.has_ended()  # noqa: E731
    assert not run_abandonable(look, process)
    started.kill()
    started.wait(20)
    assert process.has_ended()
    assert run_abandonable(look, process)
    with pytest.raises(Failure, match=rf"^process {started.pid} has ended$"):
        process.check_running()
    with pytest.raises(FileNotFoundError):
        Process.open(started.pid)


def test_another_with_its_pid_is_another() -> None:
    ours = Process.own()
    earlier = replace(ours, started=1, pidfd=None)
    assert ours == Process.own() != earlier
    assert earlier.has_ended()
    with pytest.raises(Failure, match="has ended, and another process has its PID"):
        earlier.check_running()


def test_a_pidfd_is_closed_with_the_handle_and_not_sent() -> None:
    before = set(handle.open_pidfds)
    process = Process.own()
    assert (process.pidfd is None) == (handle.open_pidfds == before)
    sent = pickle.loads(pickle.dumps(process))
    assert (sent, sent.pidfd) == (process, None)
    assert not sent.has_ended()
    del process
    assert handle.open_pidfds == before


def test_a_process_that_began_as_root_of_its_namespace() -> None:
    status = "Name:\tmysqld\nUid:\t1\t2\t3\t4\n"
    uid_map = "         0     100000      65536\n      70000        7      1\n"
    assert parse_users(status, uid_map) == {1, 2, 3, 4, 100000}
    for broken in (("Name:\tx\n", uid_map), (status, "x\n")):
        with pytest.raises(ProcessLookupError):
            parse_users(*broken)
    assert os.geteuid() in Process.own().read_users()


def test_a_name_with_brackets_moves_no_field() -> None:
    fields = split_stat("7 (a ) b) S 1 " + " ".join(map(str, range(5, 30))))
    assert (fields[handle.STATE], fields[handle.STARTED]) == ("S", "22")
    with pytest.raises(ProcessLookupError):
        split_stat("")


def test_our_own_files_are_where_we_see_them() -> None:
    assert Process.own().strip_root("/etc/passwd") == "/etc/passwd"


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
