"""Work in a child that can be given up: what it answers, what it may take, and what is left of it."""

import ctypes
import mmap
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dballoc.explain.checklist.section import Bytes
from dballoc.explain.verdicts.verdict import MemoryVerdict
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.abandonable import abandonable_work, answers, look_limits, touches
from dballoc.host.abandonable.abandonable_work import AbandonableWork, run_abandonable
from dballoc.host.abandonable.answers import ChildError
from dballoc.host.abandonable.child import tell_parent
from dballoc.host.abandonable.look_limits import LookLimits
from dballoc.host.process import maps, open_in_process_root
from dballoc.host.process.handle import Process
from dballoc.process.mapping_kind import MappingKind
from hostile_files import HostileFile, HostileFiles

pytestmark = pytest.mark.long

SHORT = LookLimits(seconds=30.0, patience=0.5)
ROOT = Path("/")


def run(work: Callable[[], Any], limits: LookLimits = SHORT) -> Any:
    """Do it in a child, in no more than its time."""
    began = time.monotonic()
    try:
        return run_abandonable(work, "process 7", limits)
    finally:
        assert time.monotonic() - began < limits.seconds + 1


def touch(address: int, seconds: float) -> None:
    """Touch memory that answers after so many seconds."""
    touches.begin_address(address)
    time.sleep(seconds)
    touches.end_touch()


def read_link(path: str) -> str:
    """Where it leads to; empty if there is none."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def count_children() -> int:
    """How many children this process has that have not ended."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return len([c for c in children if ") Z " not in Path(f"/proc/{c}/stat").read_text()])


def test_values_and_errors_come_back() -> None:
    line = maps.parse_line("1000-2000 rw-p 00000000 00:00 0 [heap]")
    value = {
        "kinds": [MappingKind.REST, MappingKind.MALLOC],
        "line": line,
        "sets": {1, Bytes(2)},
        "path": ROOT,
    }
    assert run(lambda: value) == value
    assert run(os.getpid) != os.getpid()
    for error in (Failure("a"), UsageError("b"), PermissionError(1, "c", "d")):

        def fail(error: Exception = error) -> None:
            raise error

        with pytest.raises(type(error), match=re.escape(str(error))):
            run(fail)


def test_words_come_before_the_value() -> None:
    said: list[str] = []
    work = lambda: tell_parent("it hangs") or 3  # noqa: E731
    assert run_abandonable(work, "process 7", SHORT, said.append) == 3
    assert said == ["it hangs"]


def test_an_error_that_nobody_expected_tells_where() -> None:
    @dataclass
    class Local(Exception):
        text: str

    def fail() -> None:
        raise Local("strange")

    with pytest.raises(ChildError, match="Local: strange") as raised:
        run(fail)
    assert "test_abandonable_work" in raised.value.frames


@pytest.mark.parametrize(
    "hostile", [os.system, eval, subprocess.Popen, Path, open_in_process_root.open_file]
)
def test_an_answer_calls_nothing(hostile: Callable[..., Any], tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return hostile, (f"touch {tmp_path}/ran",)

    with pytest.raises(pickle.UnpicklingError, match="is no part of an answer"):
        answers.unpack_answer(pickle.dumps(Trap()))
    assert not list(tmp_path.iterdir())


def test_verdicts_are_part_of_an_answer() -> None:
    assert answers._is_data(MemoryVerdict)


def test_what_does_not_answer_is_left_out_by_the_next_child() -> None:
    def work() -> str:
        assert touches._child
        if 7 not in touches._child.skips.addresses:
            touch(7, 60)
        return "the rest"

    assert run(work) == "the rest"


def test_from_the_third_on_nothing_is_touched_that_may_block() -> None:
    def work() -> str:
        assert touches._child
        skips = touches._child.skips
        if not skips.everything:
            touch(len(skips.addresses), 60)
        return "the rest"

    assert run(work) == "the rest"


def test_a_slow_touch_is_waited_for() -> None:
    assert run(lambda: [touch(n, 0.1) for n in range(8)]) == [None] * 8


def test_it_has_a_deadline_in_all() -> None:
    with pytest.raises(Failure, match="process 7 did not answer within 1 s"):
        run(lambda: time.sleep(60), LookLimits(seconds=1, patience=2))


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "its reader was ended by SIGKILL"),
        (lambda: os._exit(3), "its reader ended without an answer"),
        (lambda: bytearray(2 * SHORT.memory), "takes more than 512 MiB of memory"),
    ],
)
def test_what_gives_no_answer_is_a_failure(work: Callable[[], Any], reason: str) -> None:
    before = count_children()  # other tests' too
    with pytest.raises(Failure, match=reason):
        run(work)
    assert count_children() <= before


def test_its_cpu_time_is_bounded_and_counted() -> None:
    def burn() -> None:
        while True:
            pass

    with pytest.raises(Failure, match="more CPU time than dballoc takes"):
        run(burn, LookLimits(seconds=30, patience=4, cpu=1))
    before = abandonable_work.read_cpu_seconds()

    def spend() -> None:
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass

    run(spend)
    assert abandonable_work.read_cpu_seconds() - before >= 0.3


def test_one_child_serves_all_looks_while_it_answers() -> None:
    looks: list[int] = []
    before = count_children()  # other tests' too

    def work() -> tuple[int, int]:
        looks.append(1)
        return os.getpid(), len(looks)

    runner = AbandonableWork(lambda _: work(), SHORT, "process 7")
    runner.start()
    pids = {runner.run(None) for _ in range(3)}
    assert {count for _, count in pids} == {1, 2, 3}
    assert len({pid for pid, _ in pids}) == 1
    runner.close()
    assert count_children() <= before


def test_no_more_children_than_a_few_are_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abandonable_work, "_wait_for_end", lambda pid: None)
    monkeypatch.setattr(abandonable_work, "_read_end", lambda pid: None)
    runner = AbandonableWork(lambda _: time.sleep(60), LookLimits(seconds=0.1, patience=1), "it")
    for _ in range(4):
        with pytest.raises(Failure, match="did not answer"):
            runner.run(None)
    began = time.monotonic()
    with pytest.raises(Failure, match="4 earlier looks at it still wait"):
        runner.run(None)
    assert time.monotonic() - began < 0.1
    monkeypatch.undo()
    deadline = time.monotonic() + 10
    while runner._stuck and time.monotonic() < deadline:
        runner._choose_skips()
    assert not runner._stuck


def test_it_holds_no_file_of_its_parent(tmp_path: Path) -> None:
    """Whoever waits for the end of our output must not wait for a child that is stuck."""
    with (tmp_path / "f").open("w"):
        links = run(lambda: [read_link(f"/proc/self/fd/{n}") for n in range(100)])
    assert {link.partition(":")[0] for link in links} <= {"/dev/null", "socket", "anon_inode", ""}


def test_it_ends_with_its_parent(package_path: Path) -> None:
    code = """
import os, time
from dballoc.host.abandonable.abandonable_work import AbandonableWork
from dballoc.host.abandonable.look_limits import look_limits
runner = AbandonableWork(lambda _: os.getpid(), look_limits(), "it")
print(runner.run(None), flush=True)
time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(package_path)},
    ) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{child}").exists()


def test_a_file_that_never_answers_is_left_out(hostile_files: HostileFiles) -> None:
    if hostile_files.server is None:
        pytest.skip("needs /dev/fuse")

    def read(name: str) -> str:
        try:
            return open_in_process_root.read_file(
                ROOT, f"{hostile_files.mount}/{name}", 99
            ).decode()
        except OSError as error:
            return str(error.strerror)

    hostile_files.put("good", HostileFile(content=b"good"))
    title = f"fuse at {hostile_files.mount}"
    assert run(lambda: read("good")) == "good"
    for waits in ("getattr", "open", "read"):
        hostile_files.put(waits, HostileFile(content=b"x", waits=(waits,)))
        texts, notes = run(lambda waits=waits: ([read(waits), read("good")], touches.list_notes()))
        assert texts == [f"{title} did not answer within 0.5 s"] * 2
        assert notes == [
            f"{title} did not answer within 0.5 s: what lies there is counted, and not looked into"
        ]


def test_limits_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert look_limits.look_limits().seconds == 15
    assert look_limits.scrape_limits().seconds == 4.5
    monkeypatch.setenv(look_limits.VARIABLE, "1.5")
    assert look_limits.look_limits().patience == pytest.approx(0.2)
    for wrong in ("x", "nan", "0", "inf"):
        monkeypatch.setenv(look_limits.VARIABLE, wrong)
        with pytest.raises(UsageError, match="give seconds from"):
            look_limits.look_limits()


def test_what_is_left_out_has_a_size() -> None:
    memory = mmap.mmap(-1, 3 << 20)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))

    def look() -> list[str]:
        skipped = touches.find_skipped_ranges(Process.own())
        if not skipped:
            touch(address, 60)
        for each in skipped:
            touches.refuse_memory(each)
        return touches.list_notes()

    [note] = run(look)
    match = re.search(r"the ([0-9.]+) MiB mapped there are counted, and not looked into", note)
    assert match
    assert float(match[1]) >= 3  # the kernel may have joined it with its neighbours
