"""From addresses to objects: which free belongs to which allocation, and what happens where they do
not fit together.
"""

import io
from dataclasses import replace

import numpy as np
import pytest
from example_recordings import make_recording, simulate
from example_traces_of_recordings import count_events
from hypothesis import given, settings
from hypothesis import strategies as st

from dballoc.trace.compilation.compile_recording import compile_recording
from dballoc.trace.figures.live_curve import compute_live_curve
from dballoc.trace.model import NONE, EventKind, Mark, TouchSample, Trace
from dballoc.trace.trace_file.check_trace import check_trace
from dballoc.trace.trace_file.read_trace import LIMITS, parse_trace
from dballoc.trace.trace_file.thread_columns import find_bases
from dballoc.trace.trace_file.write_trace import pack_trace

M, R, F = EventKind.MALLOC, EventKind.REALLOC, EventKind.FREE


def compile_rows(*threads: list[tuple[int, ...]]) -> Trace:
    """The trace of a recording with these rows of each thread, to the nanosecond."""
    return compile_recording(make_recording(*threads), resolution=1)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("step", [1, 40])
def test_the_live_curve_is_the_programs(seed: int, step: int) -> None:
    simulation = simulate(seed, threads=1 + seed % 5, calls=400, step=step)
    trace = compile_recording(simulation.recording, resolution=1)
    check_trace(trace.threads, trace.objects)
    facts = trace.compiled
    assert (facts.unknown_frees, facts.double_frees, facts.missed_frees) == (0, 0, 0)
    curve = compute_live_curve(trace)
    expected = {time: (size, blocks) for time, size, blocks in simulation.live}
    assert (
        dict(
            zip(
                curve.time.tolist(),
                zip(curve.bytes.tolist(), curve.blocks.tolist(), strict=True),
                strict=True,
            )
        )
        == expected
    )
    assert sorted(trace.objects.size[trace.objects.freed_by == NONE].tolist()) == sorted(
        size for size, _, _ in simulation.alive.values()
    )


@pytest.mark.parametrize("seed", range(5))
def test_every_free_belongs_to_its_allocation(seed: int) -> None:
    simulation = simulate(seed, threads=4, calls=500)
    trace = compile_recording(simulation.recording, resolution=1)
    bases = find_bases([np.count_nonzero(t.object != NONE) for t in trace.threads])
    freed_by = {
        (int(owner), number - int(bases[owner])): int(trace.objects.freed_by[number])
        for number, owner in enumerate(trace.objects.allocated_by)
        if trace.objects.freed_by[number] != NONE
    }
    assert freed_by == simulation.freed_by


@given(seed=st.integers(0, 10**6), step=st.integers(0, 3), resolution=st.sampled_from([1, 7, 1000]))
@settings(max_examples=40)
def test_a_trace_is_always_one_that_can_be_replayed(seed: int, step: int, resolution: int) -> None:
    simulation = simulate(seed, threads=3, calls=120, step=step)
    trace = compile_recording(simulation.recording, resolution)
    check_trace(trace.threads, trace.objects)
    assert (
        count_events(trace)
        == sum(len(t.kind) for t in simulation.recording.threads) + trace.compiled.missed_frees
    )
    for thread in trace.threads:
        assert (thread.time <= thread.completed).all()
        assert (thread.completed[:-1] <= thread.time[1:]).all()
        assert (thread.completed % resolution == 0).all()


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(list(EventKind)),
                st.integers(0, 6),
                st.integers(0, 2),
                st.integers(0, 3),
                st.integers(0, 3),
                st.integers(0, 100),
            ),
            max_size=12,
        ),
        max_size=3,
    )
)
def test_nonsense_is_counted_and_never_fatal(threads: list[list[tuple[int, ...]]]) -> None:
    rows = [[(k, t, t + d, a * 16, o * 16, s) for k, t, d, a, o, s in thread] for thread in threads]
    trace = compile_rows(*rows)
    check_trace(trace.threads, trace.objects)
    curve = compute_live_curve(trace)
    assert (curve.bytes >= 0).all()
    assert (curve.blocks >= 0).all()


def test_at_equal_stamps_the_free_comes_first() -> None:
    trace = compile_rows([(M, 1, 1, 16, 0, 10), (F, 5, 5, 16, 0, 0)], [(M, 5, 5, 16, 0, 20)])
    assert trace.compiled.missed_frees == 0
    assert trace.objects.freed_by.tolist() == [0, NONE]


def test_at_equal_stamps_a_thread_keeps_its_own_order() -> None:
    trace = compile_rows([(M, 5, 5, 16, 0, 10), (F, 5, 5, 16, 0, 0)])
    assert trace.threads[0].freed.tolist() == [NONE, 0]
    assert trace.compiled.unknown_frees == 0


def count_misfits(trace: Trace) -> tuple[int, int, int]:
    facts = trace.compiled
    return facts.unknown_frees, facts.double_frees, facts.missed_frees


def test_an_allocation_that_is_stamped_early() -> None:
    """A processor read its counter while it still waited for the block that another freed."""
    first = [(M, 1, 1, 16, 0, 10), (F, 900, 900, 16, 0, 0)]
    second = [(M, 800, 800, 16, 0, 20), (F, 5000, 5000, 16, 0, 0)]
    trace = compile_rows(first, second)
    check_trace(trace.threads, trace.objects)
    assert count_misfits(trace) == (0, 0, 0)
    assert [thread.freed.tolist() for thread in trace.threads] == [[NONE, 0], [NONE, 1]]
    # No stamp is moved: for a moment both are alive.
    assert [thread.time.tolist() for thread in trace.threads] == [[1, 900], [800, 5000]]
    assert compute_live_curve(trace).bytes.tolist() == [10, 30, 20, 0]


def test_what_an_early_stamp_does_not_explain() -> None:
    """Too long before, or a free by the thread that got the block: a free was missed."""
    late = [(M, 1, 1, 16, 0, 10), (F, 1800, 1800, 16, 0, 0)]
    others = [(M, 800, 800, 16, 0, 20), (F, 5000, 5000, 16, 0, 0)]
    trace = compile_rows(late, others)
    assert count_misfits(trace) == (0, 1, 1)
    own = [(M, 800, 800, 16, 0, 20), (F, 900, 900, 16, 0, 0)]
    trace = compile_rows(late[:1], own)
    assert count_misfits(trace) == (0, 0, 1)
    assert trace.objects.freed_by.tolist() == [1, 1]


def test_a_thread_ends_when_it_did_and_not_before_its_last_call() -> None:
    moved = [(M, 9, 9, 16, 0, 1), (M, 4, 4, 32, 0, 1)]
    recording = make_recording(moved, [(M, 5, 5, 48, 0, 1)], [])
    for resolution, ended, expected in (
        (1, (NONE,) * 3, (NONE,) * 3),
        (1, (4, 77, 3), (9, 77, 3)),
        (10, (4, 77, 3), (0, 70, 0)),
    ):
        threads = zip(recording.threads, ended, strict=True)
        trace = compile_recording(
            replace(recording, threads=tuple(replace(each, ended=end) for each, end in threads)),
            resolution,
        )
        check_trace(trace.threads, trace.objects)
        assert tuple(thread.ended for thread in trace.threads) == expected


def test_a_thread_is_created_when_it_was_and_not_after_its_first_call() -> None:
    moved = [(M, 9, 9, 16, 0, 1), (M, 4, 4, 32, 0, 1)]
    recording = make_recording(moved, [(R, 25, 38, 48, 0, 1)], [], [])
    for resolution, created, expected in (
        (1, (NONE,) * 4, (NONE,) * 4),
        (1, (12, 7, 77, 77), (9, 7, 77, 77)),
        (10, (12, 27, 77, 3), (0, 20, 70, 0)),
    ):
        lives = zip(recording.threads, created, (NONE, NONE, NONE, 70), strict=True)
        threads = tuple(replace(each, created=born, ended=end) for each, born, end in lives)
        trace = compile_recording(replace(recording, threads=threads), resolution)
        check_trace(trace.threads, trace.objects)
        assert tuple(thread.created for thread in trace.threads) == expected
        assert trace.threads[3].ended == max(70, expected[3])


def test_what_does_not_fit_is_counted() -> None:
    trace = compile_rows(
        [
            (F, 1, 1, 32, 0, 0),  # never allocated
            (M, 2, 2, 16, 0, 10),
            (F, 3, 3, 16, 0, 0),
            (F, 4, 4, 16, 0, 0),  # a second time
            (M, 5, 5, 16, 0, 20),
            (M, 6, 6, 16, 0, 30),  # its free was missed
        ]
    )
    facts = trace.compiled
    assert (facts.unknown_frees, facts.double_frees, facts.missed_frees) == (1, 1, 1)
    assert trace.threads[0].kind.tolist() == [F, M, F, F, M, M, F]
    assert trace.threads[0].freed.tolist() == [NONE, NONE, 0, NONE, NONE, NONE, 1]
    assert compute_live_curve(trace).bytes.tolist()[-1] == 30


def test_stamps_that_run_backwards_are_moved() -> None:
    trace = compile_rows([(M, 9, 9, 16, 0, 1), (M, 4, 4, 32, 0, 1), (F, -5, -5, 16, 0, 0)])
    assert trace.threads[0].time.tolist() == [9, 9, 9]
    assert trace.compiled.clock_steps == 4


def test_realloc_frees_and_allocates() -> None:
    trace = compile_rows(
        [
            (R, 1, 2, 16, 0, 10),
            (R, 3, 4, 16, 16, 20),  # in place
            (R, 5, 6, 48, 16, 30),
            (R, 7, 8, 0, 48, 0),  # frees
            (R, 9, 9, 0, 0, 0),  # nothing
        ]
    )
    thread = trace.threads[0]
    assert thread.kind.tolist() == [R, R, R, F]
    assert thread.object.tolist() == [0, 1, 2, NONE]
    assert thread.freed.tolist() == [NONE, 0, 1, 2]
    assert (thread.time.tolist(), thread.completed.tolist()) == ([1, 3, 5, 7], [2, 4, 6, 7])


def test_a_recording_of_nothing() -> None:
    for recording in (make_recording(), make_recording([])):
        assert compute_live_curve(compile_recording(recording)).peak_bytes == 0


class TestTouches:
    PAGE = 4096

    def rows(self, size: int, count: int, site: int, live: int = 10) -> list[tuple[int, ...]]:
        rows = []
        for i in range(count):
            rows.append((M, i * 10, i * 10, 2**20 * (i + 1), 0, size, 0, site))
        rows += [(F, i * 10 + live, i * 10 + live, 2**20 * (i + 1), 0, 0) for i in range(count)]
        return rows

    def test_small_blocks_are_whole(self) -> None:
        recording = make_recording(
            self.rows(8191, 3, 0), touches=(TouchSample(size=8192, site=0, runs=()),)
        )
        trace = compile_recording(recording)
        assert trace.objects.touch.tolist() == [NONE] * 3

    def test_a_sample_of_the_site_goes_before_one_of_the_size(self) -> None:
        samples = (
            TouchSample(size=65536, site=7, runs=((0, 2), (5, 1))),
            TouchSample(size=65536, site=8, runs=()),
        )
        trace = compile_recording(make_recording(self.rows(65_600, 5, 7), touches=samples))
        assert trace.compiled.touched_by_site == 5
        assert {trace.touch_patterns[i] for i in trace.objects.touch} == {((0, 2), (5, 1))}
        trace = compile_recording(make_recording(self.rows(65_600, 400, 9), touches=samples))
        assert (trace.compiled.touched_by_site, trace.compiled.touched_by_size) == (0, 400)
        shares = np.bincount(trace.objects.touch) / 400
        assert 0.4 < shares.max() < 0.6

    def test_a_sample_of_the_same_size_goes_before_one_of_the_class(self) -> None:
        samples = (
            TouchSample(size=65536, site=7, runs=((0, 17),)),
            TouchSample(size=65_600, site=7, runs=((0, 2),)),
        )
        trace = compile_recording(make_recording(self.rows(65_600, 400, 7), touches=samples))
        assert {trace.touch_patterns[i] for i in trace.objects.touch} == {((0, 2),)}

    def test_a_sample_stands_for_as_many_as_it_was_one_of(self) -> None:
        first = TouchSample(size=65_600, site=7, runs=((0, 9),))
        rare = TouchSample(size=65_600, site=7, runs=((0, 2),), rarity=2)
        samples = (first, rare, first)
        trace = compile_recording(make_recording(self.rows(65_600, 1800, 7), touches=samples))
        assert trace.compiled.touched_by_site == 1800
        drawn = [trace.touch_patterns[i] for i in trace.objects.touch]
        # 2 in 18 are expected, with a standard deviation of 13.
        assert 130 < drawn.count(((0, 9),)) < 270
        assert drawn.count(((0, 2),)) == 1800 - drawn.count(((0, 9),))

    def test_the_same_seed_draws_the_same(self) -> None:
        samples = tuple(TouchSample(size=65536, site=0, runs=((i, 1),)) for i in range(9))
        recording = make_recording(self.rows(65536, 50, 0), touches=samples)
        first, second, third = (
            compile_recording(recording, seed=seed).objects.touch for seed in (1, 1, 2)
        )
        assert first.tolist() == second.tolist() != third.tolist()

    def test_without_a_sample_there_is_a_rule(self) -> None:
        rows = [
            *self.rows(2**20, 1, 0, live=10),
            (M, 10**3, 10**3, 2**30, 0, 2**20),
            (F, 2 * 10**9, 2 * 10**9, 2**30, 0, 0),
        ]
        trace = compile_recording(make_recording(rows))
        assert trace.compiled.touched_by_rule == 2
        assert trace.objects.touch.tolist() == [0, NONE]
        assert trace.touch_patterns == (((0, 8),),)

    @pytest.mark.parametrize(
        ("runs", "size", "expected"),
        [
            (((0, 16),), 70_000, NONE),  # whole stays whole
            (((0, 1), (15, 1)), 70_000, ((0, 1), (15, 3))),  # its end is the block's end
            (((0, 1), (15, 1)), 61_000, ((0, 1),)),
            (((0, 2**40),), 70_000, NONE),
            (((3, 2), (0, 4)), 70_000, ((0, 4), (4, 1))),
        ],
    )
    def test_a_sample_fits_blocks_of_other_sizes(
        self, runs: tuple, size: int, expected: object
    ) -> None:
        sample = TouchSample(size=65536, site=0, runs=runs)
        recording = make_recording(self.rows(size, 1, 0), touches=(sample,))
        # One class: 65,536 and up to a quarter more.
        if size < 65536:
            recording = replace(recording, touches=(replace(sample, size=65535),))
        trace = compile_recording(recording)
        touch = trace.objects.touch[0]
        assert (NONE if touch == NONE else trace.touch_patterns[touch]) == expected


def test_what_a_recorded_process_says_of_itself_is_cut_to_measure() -> None:
    recording = make_recording([(M, 1, 1, 16, 0, 1)], [], [], [(M, -(2**63), 2**63 - 1, 32, 0, 1)])
    creators = (NONE, 2, 1, 77)
    recording = replace(
        recording,
        facts=replace(recording.facts, program="x" * 10**6, seconds=1e300),
        threads=tuple(
            replace(thread, created_by=creator, name="n" * 10**5)
            for thread, creator in zip(recording.threads, creators, strict=True)
        ),
        marks=(Mark(time=-5, name="m" * 10**5, truth={"t" * 10**5: 2**80}),),
    )
    trace = compile_recording(recording)
    check_trace(trace.threads, trace.objects)
    assert NONE in {thread.created_by for thread in trace.threads[1:3]}  # the circle is cut
    assert trace.threads[3].created_by == NONE
    assert parse_trace(io.BytesIO(b"".join(pack_trace(trace))), LIMITS).marks == trace.marks
