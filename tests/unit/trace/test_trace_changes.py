"""Cutting, anonymising and composing traces: what is alive stays exactly right."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from example_recordings import make_recording, simulate
from example_traces_of_recordings import assert_equal_traces, count_events
from hypothesis import given, settings
from hypothesis import strategies as st

from dballoc.ground.errors import UsageError
from dballoc.trace.changes.anonymise_trace import anonymise_trace
from dballoc.trace.changes.compose_traces import Stretch, compose_traces
from dballoc.trace.changes.compose_traces import count_events as estimate
from dballoc.trace.changes.cut_trace import cut_trace
from dballoc.trace.changes.day_file import read_day
from dballoc.trace.changes.shuffle_lifetimes import shuffle_lifetimes
from dballoc.trace.changes.trace_parts import get_duration
from dballoc.trace.compilation.compile_recording import compile_recording
from dballoc.trace.figures.live_curve import compute_live_curve, sample_curve
from dballoc.trace.model import NONE, EventKind, Mark, Trace
from dballoc.trace.replay.check_trace import find_shared_objects
from dballoc.trace.trace_file.check_trace import check_trace

M, C, R, F = EventKind.MALLOC, EventKind.CALLOC, EventKind.REALLOC, EventKind.FREE


def make_trace(seed: int, calls: int = 200, step: int = 40, resolution: int = 1) -> Trace:
    """A trace of some µs, which ends with its last event."""
    recording = simulate(seed, threads=4, calls=calls, step=step).recording
    recording = replace(recording, facts=replace(recording.facts, seconds=0.0))
    return compile_recording(recording, resolution)


def get_live(trace: Trace, time: int) -> int:
    return int(sample_curve(compute_live_curve(trace), np.array([time]))[0])


def list_living(trace: Trace) -> list[tuple[int, int]]:
    left = trace.objects.freed_by == NONE
    pairs = zip(
        trace.objects.size[left].tolist(), trace.objects.alignment[left].tolist(), strict=True
    )
    return sorted(pairs)


class TestCut:
    @given(
        seed=st.integers(0, 10**6),
        step=st.integers(0, 50),
        resolution=st.sampled_from([1, 10, 100]),
        places=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    )
    @settings(max_examples=50)
    def test_the_same_is_alive(
        self, seed: int, step: int, resolution: int, places: tuple[float, float]
    ) -> None:
        trace = make_trace(seed, 150, step, resolution)
        duration = get_duration(trace)
        begin, end = sorted(int(place * duration) for place in places)
        begin = begin // resolution * resolution
        cut = cut_trace(trace, begin, end + 1)
        check_trace(cut.threads, cut.objects)
        whole, part = compute_live_curve(trace), compute_live_curve(cut)
        # A realloc is in the stretch in which it ends; if it began before, it frees at the begin.
        begun = [t.time[(t.time <= end) & (t.completed > end)] for t in trace.threads]
        times = np.arange(begin + 1, int(np.concatenate([*begun, [end + 1]]).min()))
        assert np.array_equal(sample_curve(part, times - begin), sample_curve(whole, times))

    @given(seed=st.integers(0, 10**6), place=st.floats(0, 1))
    @settings(max_examples=30)
    def test_a_cut_and_the_rest_have_all_events(self, seed: int, place: float) -> None:
        trace = make_trace(seed, 120)
        middle = int(place * get_duration(trace))
        first = cut_trace(trace, 0, middle)
        rest = cut_trace(trace, middle, get_duration(trace))
        population = len(list_living(first))
        assert count_events(first) + count_events(rest) == count_events(trace) + population
        assert list_living(rest) == list_living(trace)

    def test_of_all_is_all(self) -> None:
        trace = make_trace(3)
        cut = cut_trace(trace, 0, get_duration(trace))
        history = ("cut from 0 s to",)
        assert cut.compiled.history[0].startswith(history)
        same = replace(cut, facts=trace.facts, compiled=trace.compiled)
        assert_equal_traces(same, trace)

    def test_by_hand(self) -> None:
        trace = compile_recording(
            make_recording(
                [
                    (C, 1, 1, 16, 0, 10),
                    (M, 2, 2, 32, 0, 20),
                    (F, 3, 3, 32, 0, 0),
                    (M, 12, 12, 48, 0, 30),
                    (F, 13, 13, 16, 0, 0),
                ],
                [(R, 8, 11, 64, 0, 40)],
                [(M, 1, 1, 80, 0, 50), (F, 2, 2, 80, 0, 0)],
                marks=(
                    Mark(time=0, name="begin", truth={"rss": 5}),
                    Mark(time=11, name="load", truth={"rss": 6}),
                ),
            ),
            resolution=1,
        )
        cut = cut_trace(trace, 10, 13)
        assert [thread.number for thread in cut.threads] == [0, 1]  # the third has nothing left
        assert cut.threads[0].kind.tolist() == [C, M]
        assert cut.threads[0].completed.tolist() == [0, 2]
        assert (cut.threads[1].time.tolist(), cut.threads[1].completed.tolist()) == ([0], [1])
        assert [(mark.time, mark.name, dict(mark.truth)) for mark in cut.marks] == [
            (0, "begin", {}),
            (1, "load", {"rss": 6}),
        ]
        assert cut.facts.seconds == 3e-9

    def test_a_stretch_has_no_peaks(self) -> None:
        truth = {"rss": 7, "rss_peak": 9, "heap": 5}
        marks = (
            Mark(time=10, name="load", truth=truth),
            Mark(time=20, name="level", truth=truth),
            Mark(time=30, name="end", truth={**truth, "heap_peak": 8}),
        )
        calls = [(M, 5, 5, 16, 0, 10), (F, 40, 40, 16, 0, 0)]
        trace = compile_recording(make_recording(calls, marks=marks), resolution=1)
        trace = replace(trace, facts=replace(trace.facts, seconds=0.0))
        rest = {"rss": 7, "heap": 5}
        kept = {
            (begin, end): [dict(mark.truth) for mark in cut_trace(trace, begin, end).marks]
            for begin, end in ((0, 41), (0, 25), (15, 41), (20, 41))
        }
        assert kept == {
            (0, 41): [dict(mark.truth) for mark in marks],
            (0, 25): [rest, rest],
            (15, 41): [{}, rest, rest],
            (20, 41): [rest, rest],
        }

    def test_creators_stay(self) -> None:
        trace = compile_recording(make_recording([], [(M, 5, 5, 16, 0, 10)]))
        assert [thread.number for thread in cut_trace(trace, 0, 100).threads] == [0, 1]

    def test_a_thread_of_before_is_there_from_the_begin(self) -> None:
        trace = compile_recording(make_recording([], [(M, 40, 40, 16, 0, 10)]), resolution=1)
        assert trace.threads[1].created == 20
        lives = {
            (begin, end): [each.created for each in cut_trace(trace, begin, end).threads]
            for begin, end in ((0, 60), (15, 60), (30, 60), (50, 60), (0, 10))
        }
        assert lives == {
            (0, 60): [NONE, 20],
            (15, 60): [NONE, 5],
            (30, 60): [NONE, 0],
            (50, 60): [NONE, 0],
            (0, 10): [],
        }


class TestAnonymise:
    def test_sizes_and_order_stay(self) -> None:
        trace = make_trace(1)
        facts = replace(trace.facts, program="/opt/secret", not_seen=("secret.so",))
        compiled = replace(trace.compiled, history=("secret",))
        result = anonymise_trace(replace(trace, facts=facts, compiled=compiled))
        assert "secret" not in repr(result.facts) + repr(result.compiled)
        assert result.marks == ()
        assert {thread.name for thread in result.threads} == {""}
        assert result.facts.allocator == "glibc"
        restored = replace(
            result,
            facts=trace.facts,
            compiled=trace.compiled,
            marks=trace.marks,
            threads=tuple(
                replace(new, name=old.name)
                for new, old in zip(result.threads, trace.threads, strict=True)
            ),
        )
        assert_equal_traces(restored, trace)

    def test_a_malloc_that_is_a_path_goes(self) -> None:
        trace = make_trace(1)
        facts = replace(trace.facts, allocator="/home/anna/libmine.so")
        assert anonymise_trace(replace(trace, facts=facts)).facts.allocator == ""

    def test_what_a_malloc_was_told_is_removed(self) -> None:
        trace = compile_recording(make_recording([(1, 0, 5, 64, 0, 16)]))
        facts = replace(
            trace.facts,
            allocator="/opt/of/somebody/libjemalloc.so.2",
            allocator_version="5.3.0",
            settings=("MALLOC_CONF=prof_prefix:/home/somebody/x",),
        )
        result = anonymise_trace(replace(trace, facts=facts)).facts
        assert (result.allocator, result.allocator_version) == ("libjemalloc.so.2", "5.3.0")
        assert result.settings is None


def free_everything(seed: int) -> Trace:
    """A trace that leaves nothing alive, and begins with nothing."""
    simulation = simulate(seed, threads=2, calls=60, step=40)
    end = max(int(t.after.max(initial=0)) for t in simulation.recording.threads) + 100
    rows = [(F, end, end, address, 0, 0) for address in simulation.alive]
    extra = make_recording([], [], rows).threads[2]
    recording = replace(simulation.recording, threads=(*simulation.recording.threads, extra))
    return compile_recording(recording, resolution=1)


class TestCompose:
    @given(seed=st.integers(0, 1000), times=st.integers(1, 5))
    @settings(max_examples=20)
    def test_n_times_have_n_times_the_events(self, seed: int, times: int) -> None:
        trace = free_everything(seed)
        stretch = Stretch(name="a", trace=trace, times=times)
        day = compose_traces([stretch], "free")
        check_trace(day.threads, day.objects)
        assert count_events(day) == times * count_events(trace) == estimate([stretch])
        assert len(day.objects.size) == times * len(trace.objects.size)
        assert compute_live_curve(day).peak_bytes == compute_live_curve(trace).peak_bytes
        assert list_living(day) == []

    def test_flaws_of_every_trace_are_told_once(self) -> None:
        first, second = (
            replace(
                trace,
                facts=replace(trace.facts, dropped=dropped),
                compiled=replace(trace.compiled, unknown_frees=unknown, touched_by_rule=unknown),
            )
            for trace, dropped, unknown in ((make_trace(1), 3, 5), (make_trace(2), 4, 7))
        )
        stretches = [
            Stretch(name=name, trace=trace, times=2)
            for name, trace in (("a", first), ("b", second), ("c", first))
        ]
        day = compose_traces(stretches, "free")
        assert day.facts.dropped == 7
        assert (day.compiled.unknown_frees, day.compiled.touched_by_rule) == (12, 12)

    @given(
        seeds=st.lists(st.integers(0, 50), min_size=1, max_size=3),
        times=st.integers(1, 4),
        leftovers=st.sampled_from(["free", "keep"]),
    )
    @settings(max_examples=40)
    def test_every_stretch_begins_as_it_was_recorded(
        self, seeds: list[int], times: int, leftovers: str
    ) -> None:
        sources = [make_trace(seed, 150, resolution=10) for seed in seeds]
        parts = [cut_trace(s, get_duration(s) // 2, get_duration(s)) for s in sources]
        stretches = [Stretch(name=str(i), trace=p, times=times) for i, p in enumerate(parts)]
        day = compose_traces(stretches, leftovers)  # type: ignore[arg-type]
        check_trace(day.threads, day.objects)
        for thread in day.threads:
            assert (thread.completed[:-1] <= thread.time[1:]).all()
        marks = iter(day.marks)
        for stretch in stretches:
            for _ in range(times):
                begin = next(marks).time
                for time in range(0, get_duration(stretch.trace), 500):
                    live, alone = get_live(day, begin + time), get_live(stretch.trace, time)
                    assert live == alone if leftovers == "free" else live >= alone
        if leftovers == "free":
            assert list_living(day) == list_living(parts[-1])

    def test_a_population_stays_alive(self) -> None:
        rows = [
            (M, 0, 0, 16, 0, 100),
            (M, 0, 0, 32, 0, 200),
            (M, 5, 5, 48, 0, 200),
            (F, 6, 6, 32, 0, 0),
            (M, 7, 7, 64, 0, 7),
        ]
        trace = compile_recording(make_recording(rows), resolution=1)
        trace = replace(trace, facts=replace(trace.facts, seconds=1e-8))
        day = compose_traces([Stretch(name="load", trace=trace, times=3)], "free")
        # 100 stays; the new 200 takes the old one's place; the 7 is freed.
        assert day.threads[0].kind.tolist() == [M, M, M, F, M, F, M, F, M, F, M, F, M]
        assert sorted(day.objects.size.tolist()) == [7] * 3 + [100] + [200] * 4
        assert [(mark.time, mark.name) for mark in day.marks] == [
            (0, "load 1/3"),
            (10, "load 2/3"),
            (20, "load 3/3"),
        ]
        kept = compose_traces([Stretch(name="load", trace=trace, times=3)], "keep")
        assert [get_live(kept, time) for time in (9, 19, 29)] == [307, 314, 321]
        assert day.facts.seconds == 3e-8

    @given(seed=st.integers(0, 50), days=st.integers(1, 4))
    @settings(max_examples=10)
    def test_days_are_all_stretches_again_and_again(self, seed: int, days: int) -> None:
        source = make_trace(seed, 150, resolution=10)
        middle = get_duration(source) // 2
        stretches = [
            Stretch(name="dump", trace=cut_trace(source, 0, middle)),
            Stretch(name="load", trace=cut_trace(source, middle, get_duration(source)), times=2),
        ]
        composed = compose_traces(stretches, "free", days)
        check_trace(composed.threads, composed.objects)
        one = compose_traces(stretches * days, "free")
        names = [mark.name for mark in composed.marks]
        if days > 1:
            numbered = [f"day {n}/{days}" for n in range(1, days + 1)]
            assert [name for name in names if name.startswith("day ")] == numbered
            names = [name for name in names if not name.startswith("day ")]
        assert names == [mark.name for mark in one.marks]
        assert all(
            (a.time == b.time).all() and (a.freed == b.freed).all()
            for a, b in zip(composed.threads, one.threads, strict=True)
        )
        assert composed.compiled.history == one.compiled.history

    def test_threads_of_one_number_and_name_are_one(self) -> None:
        one, two = make_trace(1), make_trace(2)
        renamed = replace(two, threads=tuple(replace(t, name="x") for t in two.threads))
        joined = compose_traces([Stretch(name="", trace=t) for t in (one, two)], "free")
        apart = compose_traces([Stretch(name="", trace=t) for t in (one, renamed)], "free")
        assert (len(joined.threads), len(apart.threads)) == (4, 8)
        assert len({thread.number for thread in apart.threads}) == 8
        created = [thread.created for thread in one.threads]
        assert [thread.created for thread in joined.threads] == created
        later = [
            NONE if each.created == NONE else each.created + get_duration(one)
            for each in two.threads
        ]
        assert [thread.created for thread in apart.threads] == created + later


class TestDayFile:
    def test_a_day(self, tmp_path: Path) -> None:
        path = tmp_path / "day.toml"
        path.write_text(
            'leftovers = "keep"\n[[stretch]]\ntrace = "a.trace"\nfrom = "10s"\nto = "1m"\n'
            'times = 3\nmark = "load"\n[[stretch]]\ntrace = "b.trace"\n'
        )
        day = read_day(path)
        assert day.leftovers == "keep"
        assert [(s.trace, s.begin, s.end, s.times, s.mark) for s in day.stretch] == [
            ("a.trace", 10.0, 60.0, 3, "load"),
            ("b.trace", 0.0, None, 1, ""),
        ]

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("", "stretch: Field required"),
            ("stretch = []", "stretch: List should have at least 1 item"),
            ('[[stretch]]\ntrace = "a"\ntimes = 0', "stretch.0.times"),
            ('[[stretch]]\ntrace = "a"\ntimes = 20000', "stretch.0.times"),
            ('[[stretch]]\ntrace = "a"\nfrom = "10"', "stretch.0.from: .*is not a duration"),
            ('days = 0\n[[stretch]]\ntrace = "a"', "days: Input should be greater"),
            ('[[stretch]]\ntrace = "a"\nextra = 1', "stretch.0.extra: Extra inputs"),
            ('leftovers = "drop"\n[[stretch]]\ntrace = "a"', "leftovers"),
            ("[[stretch", "not TOML"),
        ],
    )
    def test_another_is_refused(self, tmp_path: Path, text: str, complaint: str) -> None:
        path = tmp_path / "day.toml"
        path.write_text(text)
        with pytest.raises(UsageError, match=complaint) as caught:
            read_day(path)
        assert str(caught.value).startswith(f"{path}: ")


@settings(max_examples=40)
@given(seed=st.integers(0, 1000), resolution=st.sampled_from([1, 40, 500]))
def test_shuffled_lifetimes_keep_what_a_histogram_keeps(seed: int, resolution: int) -> None:
    trace = make_trace(seed, resolution=resolution)
    shuffled = shuffle_lifetimes(trace, seed)
    check_trace(shuffled.threads, shuffled.objects)
    find_shared_objects(shuffled)  # refuses a free before its allocation in its own thread
    assert count_events(shuffled) == count_events(trace)
    before, after = compute_live_curve(trace), compute_live_curve(shuffled)
    assert np.array_equal(before.blocks, after.blocks)
    for thread, other in zip(trace.threads, shuffled.threads, strict=True):
        assert np.array_equal(thread.object, other.object)
        assert np.array_equal(thread.time, other.time)
        assert np.array_equal(thread.freed == NONE, other.freed == NONE)
    for column in ("size", "allocated_by"):
        assert np.array_equal(getattr(trace.objects, column), getattr(shuffled.objects, column))
    owner, by = trace.objects.allocated_by, trace.objects.freed_by
    pairs = sorted(zip(owner.tolist(), by.tolist(), strict=True))
    others = shuffled.objects.freed_by.tolist()
    assert sorted(zip(owner.tolist(), others, strict=True)) == pairs


def test_shuffled_lifetimes_differ_by_seed() -> None:
    trace = make_trace(3, calls=2000)
    first, again, other = (
        np.concatenate([thread.freed for thread in shuffle_lifetimes(trace, seed).threads])
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
