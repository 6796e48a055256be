"""What perf script prints, read back; and lines that it would never print."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from example_perf_script import TEXT
from hypothesis import given
from hypothesis import strategies as st

from dballoc.ground.errors import Failure
from dballoc.host.abandonable import look_limits
from dballoc.host.process.handle import Process
from dballoc.profile.contention import contention, perf_record, thread_states
from dballoc.profile.contention.contention import PerfFrames, name_places
from dballoc.profile.contention.perf_script import Lost, Sampled, Switch, parse_events, parse_frame
from dballoc.profile.model import Frame
from hostile_files import HostileFile, HostileFiles


def name(address: int, file: str) -> Frame:
    return Frame(f"{address:x}", file)


def test_the_lines_of_every_kind() -> None:
    into, waking, wakeup, switch, out, lost = parse_events(TEXT.splitlines(keepends=True), name)
    assert into == Switch(36498_245564687, 16443, out=False, preempted=False)
    assert isinstance(waking, Sampled)
    assert (waking.event, waking.pid, waking.tid, waking.target) == (
        "sched:sched_waking",
        16440,
        16443,
        16445,
    )
    assert [f.function for f in waking.stack] == ["1098eb", "86193", "ffffffff813a88b4"]
    assert waking.stack[-1].module == "[kernel.kallsyms]"
    assert isinstance(wakeup, Sampled)
    assert wakeup.target == 16445
    assert not wakeup.stack
    assert isinstance(switch, Sampled)
    assert switch.event == "context-switches"
    assert switch.stack == (
        Frame("11d4", "/usr/lib/libstdc++.so.6.0.30"),
        Frame("7a11f0", "/opt/my (x)/bin/mariadbd (deleted)"),
        Frame("ffffffff821f8c03", "[kernel.kallsyms]"),
    )
    assert out == Switch(36498_245700000, 16443, out=True, preempted=True)
    assert lost == Lost(36498_245700001, 123)


def test_a_frame_is_an_address_in_a_file() -> None:
    assert parse_frame("\t 1f ([nf_tables])\n") == (0x1F, "[nf_tables]")
    assert parse_frame("\t 1f ([unknown])\n") == (0x1F, "[unknown]")
    assert parse_frame("\tffffffffffffffff ([unknown])\n") is None
    assert parse_frame("\t 1f malloc (/bin/a)\n") is None


def test_the_kernels_frames_have_the_kernels_names() -> None:
    frames = PerfFrames(Path("/"))
    lines = (line.split() for line in Path("/proc/kallsyms").read_text().splitlines())
    address, function = next(((int(a, 16), n) for a, t, n, *_ in lines if n == "schedule"), (0, ""))
    if not address:
        pytest.skip("needs root, to whom /proc/kallsyms shows addresses")
    assert frames.resolve(address + 1, "[kernel.kallsyms]") == Frame(function, "[kernel]")
    assert frames.resolve(0x1F, "[vdso]") == Frame("[vdso]+0x1f", "[vdso]", named=False)
    assert not frames.resolve(0x1F, "/nowhere/x").named


@given(
    st.lists(
        st.tuples(st.integers(0, 2**64 - 2), st.text(st.sampled_from("ab ()/"), min_size=1)),
        max_size=5,
    ),
    st.integers(0, 10**15),
    st.booleans(),
)
def test_whatever_files_are_called(places: list[tuple[int, str]], time: int, out: bool) -> None:
    seconds = f"{time // 10**9}.{time % 10**9:09}"
    lines = [
        f"7/8 {seconds}: context-switches: \n",
        *(f"\t  {address:x} ({file})\n" for address, file in places),
    ]
    lines += ["\n", f"7/8 {seconds}: PERF_RECORD_SWITCH {'OUT' if out else 'IN'}\n"]
    sample, switch = parse_events(lines, name)
    assert sample == Sampled(
        time, 7, 8, "context-switches", 0, tuple(name(*place) for place in reversed(places))
    )
    assert switch == Switch(time, 8, out, preempted=False)


@given(st.lists(st.text()))
def test_no_line_is_a_surprise(lines: list[str]) -> None:
    for event in parse_events(lines, name):
        assert isinstance(event, Sampled | Switch | Lost)


@given(st.data())
def test_nor_is_a_line_that_was_broken(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(TEXT)))
    gone = data.draw(st.integers(0, 40))
    list(
        parse_events(
            (TEXT[:at] + data.draw(st.text(max_size=5)) + TEXT[at + gone :]).splitlines(
                keepends=True
            ),
            name,
        )
    )


def test_files_that_never_answer_have_no_names(
    hostile_files: HostileFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hostile_files.server is None:
        pytest.skip("needs /dev/fuse")
    monkeypatch.setenv(look_limits.VARIABLE, "1.5")
    silent = str(hostile_files.put("lib.so", HostileFile(content=b"x", waits=("read",))))
    places = [(0x1F, silent), (0x1F, "[vdso]")]
    began = time.monotonic()
    named = name_places(Process.own(), places, is_ours=False)
    assert time.monotonic() - began < 20
    assert [frame.named for frame in named.frames] == [False, False]
    assert f"fuse at {hostile_files.mount} did not answer" in named.left_out[0]


def test_only_our_own_server_is_read_by_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(process: Process) -> tuple[set[int], str]:
        return {os.getpid()}, "glibc"

    monkeypatch.setattr(thread_states, "find_arena_mutexes", read)
    assert contention._find_arena_mutexes(Process.own(), is_ours=False)[0] != {os.getpid()}
    ours = contention._find_arena_mutexes(Process.own(), is_ours=True)
    assert ours == ({os.getpid()}, "glibc")


def test_a_perf_script_that_does_not_go_on_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As one does that looks at a file of the target which never answers."""

    def start(*_: object) -> "subprocess.Popen[str]":
        words = ["sh", "-c", "printf 'a\\n'; exec sleep 20"]
        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    monkeypatch.setattr(perf_record, "_start_reader", start)
    monkeypatch.setattr(perf_record, "_PERF_TIMEOUT", 0.3)
    began = time.monotonic()
    with (
        pytest.raises(Failure, match="--method proc"),
        perf_record.run_perf_script(tmp_path / "a.data", tmp_path) as lines,
    ):
        assert list(lines) == ["a\n"]
    assert time.monotonic() - began < 10


def test_perf_scripts_lines_end_at_newlines_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def start(*_: object) -> "subprocess.Popen[str]":
        words = ["printf", "a\\rb\\n\\nc"]
        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    monkeypatch.setattr(perf_record, "_start_reader", start)
    with perf_record.run_perf_script(tmp_path / "a.data", tmp_path) as lines:
        assert list(lines) == ["a\rb\n", "\n", "c"]
