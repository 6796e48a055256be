"""Counts between two readings, and software events of real processes: threads that are born and
die, and a process that is gone.
"""

import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.campaign.trial.trial_rows import StepMeasurements, make_step_counter_rows
from dballoc.experiment.trial_steps import Step
from dballoc.host.process.handle import Process
from dballoc.instruments import perf_events, server_counters
from dballoc.instruments.perf_events import CannotCount, GroupReading
from dballoc.instruments.process_sampler import ProcessGone
from dballoc.instruments.server_counters import (
    LEAST_RUNNING,
    Count,
    Reading,
    ServerCounters,
    add_groups,
    find_countable,
    interpolate_reading,
    make_room_for_descriptors,
    scale_counts,
)
from dballoc.load.client_output import IntervalReport
from dballoc.store.rows import StepCounterRow

SOFTWARE = ["task-clock", "page-faults", "context-switches"]
countable = find_countable(SOFTWARE)
counts_here = pytest.mark.skipif(not countable.events, reason=countable.refusal)

amounts = st.integers(0, 10**15)
shares = st.floats(LEAST_RUNNING, 1.0)


def reading(clock: float, *counts: float, enabled: float = 0.0, running: float = 0.0) -> Reading:
    return Reading(clock=clock, counts=counts, enabled=enabled, running=running)


# -- counts between readings -----------------------------------------------------------------------


@given(first=amounts, more=amounts, seconds=st.floats(1e-3, 1e6))
def test_what_was_counted_all_the_time_is_not_scaled(first: int, more: int, seconds: float) -> None:
    before = reading(0.0, first, enabled=5.0, running=5.0)
    after = reading(1.0, first + more, enabled=5.0 + seconds, running=5.0 + seconds)
    [count] = scale_counts(["cycles:u"], before, after)
    assert (count.event, count.count, count.running) == ("cycles:u", more, 1.0)


@given(more=st.integers(10**6, 10**12), share=shares)
def test_what_was_counted_for_a_part_is_scaled_to_the_whole(more: int, share: float) -> None:
    before, after = reading(0.0, 0), reading(1.0, more * share, enabled=1.0, running=share)
    [count] = scale_counts(["cycles:u"], before, after)
    assert count.count == pytest.approx(more, rel=1e-9, abs=1)
    assert count.running == share


def test_what_was_counted_too_seldom_is_refused() -> None:
    before, after = reading(0.0, 0), reading(1.0, 1000, enabled=1.0, running=0.89)
    [count] = scale_counts(["cycles:u"], before, after)
    assert count.count is None
    assert count.running == pytest.approx(0.89)


def test_a_server_that_did_not_run() -> None:
    still = reading(0.0, 7, 8, enabled=1.0, running=1.0)
    assert [c.count for c in scale_counts(["a", "b"], still, still)] == [0, 0]


@given(st.lists(st.tuples(amounts, amounts), max_size=8))
def test_threads_add_up(threads: list[tuple[int, int]]) -> None:
    groups = [GroupReading(counts=pair, enabled=1.0, running=0.5) for pair in threads]
    total = add_groups(3.0, 2, groups)
    assert total.counts == tuple(sum(pair[i] for pair in threads) for i in (0, 1))
    assert (total.enabled, total.running) == (len(threads), len(threads) / 2)


@given(st.floats(-1, 12))
def test_between_readings_counts_are_on_a_line(clock: float) -> None:
    series = [reading(t, 10.0 * t, enabled=t, running=t) for t in (0.0, 1.0, 4.0, 10.0)]
    between = interpolate_reading(series, clock)
    within = min(max(clock, 0.0), 10.0)
    assert between.counts[0] == pytest.approx(10 * within)
    assert between.enabled == pytest.approx(within)


def test_a_step_is_counted_over_its_window() -> None:
    step = Step(number=3, kind="level", seconds=4.0, workload="oltp_read_only", threads=2)
    reports = [
        IntervalReport(
            clock=clock, elapsed=clock - 10, seconds=1.0, threads=2, events=100, queries=1600,
            latency=0.003, errors=0, reconnects=0,
        )
        for clock in (11.0, 12.0, 13.0)
    ]  # fmt: skip
    # A thousand a second; readings come a little after the reports.
    readings = [
        reading(clock, 1000 * clock, 5.0, enabled=clock, running=clock)
        for clock in (10.0, 11.05, 12.02, 13.04)
    ]
    measurements = StepMeasurements(
        step=step, started=10.0, ended=14.0, samples=[], intervals=reports, total=None,
        histogram=[], rss_peak=0, readings=readings,
    )  # fmt: skip
    counted, still = make_step_counter_rows(measurements, ["cycles:u", "page-faults"])
    assert counted == StepCounterRow(step=3, event="cycles:u", count=2000, running=1.0)
    assert (still.event, still.count) == ("page-faults", 0)
    assert make_step_counter_rows(replace(measurements, readings=[]), []) == []
    assert make_step_counter_rows(replace(measurements, intervals=[]), ["cycles:u"]) == []


@pytest.mark.parametrize(
    ("limits", "raises"), [((1024, 4096), True), ((1024, -1), True), ((-1, -1), False)]
)
def test_room_for_descriptors(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], raises: bool
) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: raised.append(pair))
    make_room_for_descriptors(10)
    assert raised == []
    make_room_for_descriptors(1600)
    assert [soft >= 1600 for soft, _ in raised] == ([True] if raises else [])
    assert all(hard == limits[1] for _, hard in raised)


def test_no_room_for_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    with pytest.raises(CannotCount, match="the hard limit is 1,024; raise it: ulimit -Hn"):
        make_room_for_descriptors(2000)


# -- real processes --------------------------------------------------------------------------------

# Does what a line on its standard input asks for, and answers with a line.
PROGRAM = """
import mmap, sys, threading, time

def touch(pages):
    area = mmap.mmap(-1, pages * mmap.PAGESIZE)
    area.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(pages):
        area[page * mmap.PAGESIZE] = 1

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

kept, release = [], threading.Event()
for line in sys.stdin:
    word, amount = line.split()
    if word == "threads":  # that stay
        kept = [threading.Thread(target=release.wait, daemon=True) for _ in range(int(amount))]
        for thread in kept:
            thread.start()
    elif word == "touch":  # each in a thread of its own, which ends
        for _ in range(4):
            thread = threading.Thread(target=touch, args=(int(amount),))
            thread.start()
            thread.join()
    else:
        thread = threading.Thread(target=burn, args=(float(amount),))
        thread.start()
        thread.join()
    print(time.process_time(), flush=True)
"""
Ask = Callable[[str], float]


@pytest.fixture
def program() -> Iterator[tuple[subprocess.Popen[str], Ask]]:
    """A process with threads, and how it is asked: it answers with its CPU seconds."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def ask(line: str) -> float:
        assert process.stdin
        assert process.stdout
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    ask("threads 5")
    yield process, ask
    process.kill()
    process.communicate()


def count_between(before: Reading, after: Reading) -> list[Count]:
    return scale_counts(SOFTWARE, before, after)


@counts_here
def test_threads_that_are_born_and_die_are_counted(
    program: tuple[subprocess.Popen[str], Ask],
) -> None:
    process, ask = program
    counters = ServerCounters.open(Process.open(process.pid), countable.events)
    try:
        cpu_before, before = ask("burn 0"), counters.read()
        ask("touch 500")
        cpu_after, after = ask("burn 0.2"), counters.read()
        counts = {c.event: c for c in count_between(before, after)}
    finally:
        counters.close()
    # Nanoseconds of the CPU, page faults of four threads of 500 pages, a wait for each thread.
    clock = counts["task-clock"].count
    assert clock is not None
    assert clock / 1e9 == pytest.approx(cpu_after - cpu_before, rel=0.1)
    assert 2000 <= (counts["page-faults"].count or 0) < 3000
    assert (counts["context-switches"].count or 0) >= 4
    assert all(count.running == 1.0 for count in counts.values())


@counts_here
def test_every_thread_that_was_there_has_its_events(
    program: tuple[subprocess.Popen[str], Ask],
) -> None:
    process, _ = program
    counters = ServerCounters.open(Process.open(process.pid), countable.events)
    try:
        assert len(counters._groups) == 6
        assert all(len(group) == len(SOFTWARE) for group in counters._groups)
    finally:
        counters.close()


@counts_here
def test_a_thread_that_came_meanwhile_is_not_counted_twice(
    program: tuple[subprocess.Popen[str], Ask], monkeypatch: pytest.MonkeyPatch
) -> None:
    process, ask = program
    open_groups, tries = server_counters._open_groups, 0

    def open_and_start_a_thread(*words: object) -> list[list[int]]:
        nonlocal tries
        tries += 1
        groups = open_groups(*words)  # type: ignore[arg-type]
        if tries == 1:
            ask("threads 1")
        return groups

    monkeypatch.setattr(server_counters, "_open_groups", open_and_start_a_thread)
    counters = ServerCounters.open(Process.open(process.pid), countable.events)
    try:
        assert tries == 2
        assert len(counters._groups) == 7
    finally:
        counters.close()


@counts_here
def test_what_a_process_counted_can_be_read_after_its_end(
    program: tuple[subprocess.Popen[str], Ask],
) -> None:
    process, ask = program
    handle = Process.open(process.pid)
    counters = ServerCounters.open(handle, countable.events)
    try:
        before = counters.read()
        ask("touch 100")
        process.kill()
        process.wait()
        after = counters.read()
        assert count_between(before, after)[1].count >= 400  # type: ignore[operator]
    finally:
        counters.close()
    with pytest.raises(ProcessGone):
        ServerCounters.open(handle, countable.events)


@counts_here
def test_more_threads_than_descriptors(
    program: tuple[subprocess.Popen[str], Ask], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_counters, "MOST_DESCRIPTORS", 10)
    with pytest.raises(CannotCount, match="18 descriptors would be needed"):
        ServerCounters.open(Process.open(program[0].pid), countable.events)


# -- what this host counts -------------------------------------------------------------------------


def refuse(*codes: int | None) -> Callable[..., list[int]]:
    """Instead of open_group: fails with each of these errors in turn, None for none."""
    rest = list(codes)

    def open_group(thread: int, events: object) -> list[int]:
        if code := rest.pop(0):
            raise OSError(code, "refused")
        return []

    return open_group


def answer(monkeypatch: pytest.MonkeyPatch, counts: tuple[int, ...], running: float) -> None:
    """What every group counts."""
    monkeypatch.setattr(
        perf_events,
        "read_group",
        lambda _, size: GroupReading(counts=counts[:size], enabled=1.0, running=running),
    )
    monkeypatch.setattr(perf_events, "read_paranoid_level", lambda: 2)


class _Descriptors(list):
    """No descriptors, of which the first is asked for all the same."""

    def __getitem__(self, place: object) -> int:
        return -1


def test_where_the_kernel_is_refused_user_mode_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = refuse(13, None)
    monkeypatch.setattr(
        perf_events, "open_group", lambda *words: refusing(*words) or _Descriptors()
    )
    answer(monkeypatch, (1, 1), 1.0)
    result = find_countable(["instructions", "cycles"])
    assert [event.name for event in result.events] == ["instructions:u", "cycles:u"]
    assert result.refusal.startswith("not the kernel's part: refused by kernel.perf_event_paranoid")


def test_where_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_events, "open_group", refuse(2, 2))
    result = find_countable(["instructions", "cycles"])
    assert result.events == ()
    assert result.refusal.startswith("this CPU, or the hypervisor above it")


@pytest.mark.parametrize(("counts", "running"), [((0, 9, 0, 9), 1.0), ((0, 0, 0, 0), 0.0)])
def test_counters_that_stand_still(
    monkeypatch: pytest.MonkeyPatch, counts: tuple[int, ...], running: float
) -> None:
    monkeypatch.setattr(perf_events, "open_group", lambda *_: _Descriptors())
    answer(monkeypatch, counts, running)
    result = find_countable(["instructions", "cycles"])
    assert result.events == ()
    assert "stand still" in result.refusal


def test_nothing_asked_for_is_nothing_refused() -> None:
    assert find_countable([]) == server_counters.Countable()
