"""``dballoc replay``'s flags, the experiment that they make, and what identifies it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_replays import make_trace_of_calls

from dballoc.campaign.preparation.prepare import prepare_campaign
from dballoc.campaign.replay.describe_trace import describe_trace
from dballoc.campaign.replay.hash_trace import hash_trace
from dballoc.campaign.replay.read_trace_file import read_any_trace
from dballoc.campaign.replay.replay_limits import (
    check_needs,
    estimate_replay_seconds,
    make_limits,
)
from dballoc.cli.shared.experiment_from_replay import (
    ReplayFlags,
    build_replay_experiment,
    name_after,
)
from dballoc.cli.shared.flags import ExperimentSource
from dballoc.cli.verbs import replay as replay_verb
from dballoc.experiment import experiment_file
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError
from dballoc.trace.changes.moments import find_window
from dballoc.trace.model import (
    NONE,
    CompileFacts,
)
from dballoc.trace.recording.read_recording import LOST_END
from dballoc.trace.trace_file.write_trace import write_trace


def build(
    sha256: str = "ab" * 32, window: tuple[float, float] | None = None, **flags: Any
) -> Experiment:
    flags = {"trace": Path("/data/oltp.trace"), "allocators": "glibc,jemalloc", **flags}
    source = ExperimentSource(
        **{n: flags.pop(n) for n in ("allocators", "preload", "sweep") if n in flags}
    )
    keys = {"memory": "limits.memory", "blocks": "blocks"}
    changes = {key: flags.pop(name) for name, key in keys.items() if name in flags}
    return build_replay_experiment(ReplayFlags(**flags), source, changes, sha256, 7, window)


def test_flags_make_an_experiment_without_a_server() -> None:
    model = build(blocks=3)
    assert model.name == "oltp"
    assert [v.name for v in model.variant] == ["glibc", "jemalloc"]
    assert model.baseline == "glibc"
    assert (model.design, model.workloads, model.threads) == ("solo", ["replay"], [7])
    assert model.blocks == 3
    assert model.replay
    assert model.replay.sha256 == "ab" * 32


def test_it_is_read_back_as_it_was_written() -> None:
    model = build(mode="timed", speed=10.0, memory="2G", sweep=["jemalloc:narenas=1,2"])
    text = experiment_file.format_experiment(model)
    again = experiment_file.build_experiment(experiment_file.parse_table(text, "x"), "x")
    assert experiment_file.compute_identity(again) == experiment_file.compute_identity(model)


def test_what_the_trace_holds_identifies_it_and_not_where_it_lies() -> None:
    identity = experiment_file.compute_identity
    assert identity(build()) == identity(build(trace=Path("/elsewhere/oltp.trace")))
    assert identity(build()) != identity(build(sha256="cd" * 32))
    assert identity(build()) != identity(build(touch="all"))


def test_a_malloc_of_ones_own_beside_glibc() -> None:
    model = build(allocators=None, preload=[Path("/opt/libmine.so.2")])
    assert [v.name for v in model.variant] == ["glibc", "mine"]
    assert model.find("mine").preload == ["/opt/libmine.so.2"]
    same = build(allocators="glibc,/opt/libmine.so.2")
    assert experiment_file.compute_identity(same) == experiment_file.compute_identity(model)
    assert build(allocators="jemalloc").baseline == "jemalloc"
    assert build(baseline="jemalloc").baseline == "jemalloc"


def test_every_malloc_under_every_mode_of_thp() -> None:
    [glibc, jemalloc] = build(thp="always").variant
    assert (glibc.name, glibc.thp, jemalloc.name, jemalloc.thp) == (
        "glibc", "always", "jemalloc", "always",
    )  # fmt: skip
    model = build(allocators="jemalloc,glibc", thp="never,always")
    assert [v.name for v in model.variant] == [
        "jemalloc-thp=never", "glibc-thp=never", "jemalloc-thp=always", "glibc-thp=always",
    ]  # fmt: skip
    assert model.baseline == "glibc-thp=never"
    assert build(glibc="2.41").server.glibc == "2.41"


def test_a_stretch_of_the_trace() -> None:
    trace = make_trace_of_calls([[(0, 0, NONE), (1_500_000_000, NONE, 0)]], [8])
    name = trace.marks[1].name
    assert find_window(trace, "500ms..1s") == (0.5, 1.0)
    assert find_window(trace, "..1s") == (0.0, 1.0)
    assert find_window(trace, f"{name}..") == (1.0, pytest.approx(1.5))
    assert find_window(trace, f"{trace.marks[0].name}..{name}") == (0.0, 1.0)
    for text, complaint in (
        ("1s", "'1s' is no stretch of the trace, which is 1.5 s long"),
        ("1s..500ms", "is no stretch"),
        ("2s..3s", "is no stretch"),
        ("x..1s", "--window: no mark 'x'; there are m0"),
        ("1..2", "--window: '1' is not a duration"),
    ):
        with pytest.raises(UsageError, match=complaint):
            find_window(trace, text)
    model = build(window=(0.5, 1.0))
    assert model.replay
    assert model.replay.window == (0.5, 1.0)
    identity = experiment_file.compute_identity
    assert identity(model) != identity(build())
    text = experiment_file.format_experiment(model)
    again = experiment_file.build_experiment(experiment_file.parse_table(text, "x"), "x")
    assert identity(again) == identity(model)


def test_settings_of_a_malloc_are_swept() -> None:
    names = [v.name for v in build(sweep=["jemalloc:narenas=1,2"]).variant]
    assert names[0] == "glibc"
    assert len(names) > 2


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"allocators": None}, "replay: on which mallocs"),
        ({"speed": 2.0}, "--speed: only with --mode timed"),
        ({"mode": "timed", "speed": -1.0}, "replay.speed"),
        ({"sweep": ["server.innodb_buffer_pool_size=1G,2G"]}, "a replay has no server"),
        ({"baseline": "tcmalloc"}, "baseline 'tcmalloc' is not a variant"),
        ({"idle": "soon"}, "time.idle"),
        ({"memory": "much"}, "limits.memory"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(flags: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as error:
        build(**flags)
    assert "\n" not in str(error.value)


def test_a_replays_experiment_is_not_benchs() -> None:
    with pytest.raises(UsageError, match="run it with dballoc replay"):
        prepare_campaign(build())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("oltp.trace", "oltp"),
        ("1234.recording", "1234.recording"),
        ("läuft?.trace", "l-uft-"),
        (".trace", "trace-"),
        ("x" * 99, "x" * 64),
        ("-o.trace", "trace--o"),
    ],
)
def test_a_traces_name_becomes_the_experiments(name: str, expected: str) -> None:
    assert name_after(Path("/data") / name) == expected
    build(trace=Path("/data") / name)


def test_files_that_are_no_traces_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "x.trace"
    text.write_text("hello\n")
    for path in (text, tmp_path, tmp_path / "none", Path("/dev/zero")):
        with pytest.raises(UsageError) as error:
            read_any_trace(path)
        assert str(error.value).startswith(str(path))
    with pytest.raises(UsageError):
        hash_trace(tmp_path)


def test_the_peak_of_live_bytes() -> None:
    one = make_trace_of_calls(
        [[(1, 0, NONE), (5, 1, NONE)], [(3, NONE, 0), (5, NONE, 1)]], [100, 30]
    )
    assert describe_trace(one).peak_live == 100
    # At 5 ns the one is freed before the other is there, whichever is larger.
    same = make_trace_of_calls([[(1, 0, NONE), (5, 1, NONE)], [(5, NONE, 0)]], [100, 130])
    assert describe_trace(same).peak_live == 130
    both = make_trace_of_calls([[(1, 0, NONE), (5, 1, NONE)], [(6, NONE, 0)]], [100, 30])
    assert describe_trace(both).peak_live == 130
    assert describe_trace(make_trace_of_calls([], [])).peak_live == 0


def test_a_summary_shows_no_escape_sequences_and_no_endless_names() -> None:
    summary = describe_trace(
        make_trace_of_calls([[(1, 0, NONE)]], [8], program="\x1b]0;" + "x" * 5000)
    )
    assert summary.events == 1
    assert "\x1b" not in summary.program + "".join(m.name for m in summary.marks)
    assert len(summary.program) <= 100


def test_a_timed_replay_takes_its_time() -> None:
    fast, timed = build(), build(mode="timed", speed=10.0)
    trace = replace(describe_trace(make_trace_of_calls([[(1, 0, NONE)]], [8])), seconds=600.0)
    assert estimate_replay_seconds(fast, trace) < 5
    assert 60 < estimate_replay_seconds(timed, trace) < 65


MIB, HOUR = 2**20, 3600.0


def test_a_replay_has_the_memory_that_is_there_and_a_day_at_most() -> None:
    trace = describe_trace(make_trace_of_calls([[(1, 0, NONE)]], [8]))
    limits = make_limits(build(), trace, 700 * MIB)
    assert (limits.memory, limits.needs_cgroup) == (700 * MIB, False)
    assert 120 < limits.seconds < 300
    asked = make_limits(build(memory="2G", max_time="30m"), trace, 700 * MIB)
    assert (asked.memory, asked.needs_cgroup, asked.seconds) == (2048 * MIB, True, HOUR / 2)
    longest = replace(trace, events=10**12)
    assert make_limits(build(), longest, 0).seconds == 24 * HOUR
    identity = experiment_file.compute_identity
    assert identity(build(max_time="30m")) == identity(build())


@pytest.mark.parametrize(
    ("needs", "flags", "complaint"),
    [
        ({"peak_touched": 701 * MIB}, {}, "touches 701 MiB at once, and this machine has 700"),
        ({"peak_live": 701 * MIB}, {"touch": "all"}, "touches 701 MiB at once"),
        ({"peak_live": 100 * 2**30}, {}, "100 GiB alive at once, and no more than 64.0 GiB"),
        ({"threads": 100_001}, {}, "100,001 threads, and no more than 100,000"),
        ({"threads_at_once": 4097}, {}, "4,097 threads at once, and no more than 4,096"),
        ({"seconds": 25 * HOUR}, {"mode": "timed"}, "about 25.0 hours.*24.0 are .*--max-time"),
        ({"events": 10**9}, {"max_time": "10s"}, "--max-time"),
    ],
)
def test_what_a_replay_cannot_have_is_refused_before_the_first(
    needs: dict[str, Any], flags: dict[str, Any], complaint: str
) -> None:
    trace = describe_trace(make_trace_of_calls([[(1, 0, NONE)]], [8]))
    check_needs(build(), trace, 700 * MIB)
    with pytest.raises(UsageError, match=complaint) as error:
        check_needs(build(**flags), replace(trace, **needs), 700 * MIB)
    assert "\n" not in str(error.value)


def test_a_trace_without_times_has_no_pace(tmp_path: Path) -> None:
    trace = make_trace_of_calls([[(1, 0, NONE)]], [8])
    path = tmp_path / "order.trace"
    write_trace(replace(trace, compiled=CompileFacts(timed=False)), path)
    with pytest.raises(
        UsageError, match=r"^--mode timed: .*order.trace was imported without times"
    ):
        replay_verb.replay(trace=path, mode="timed")


def test_under_a_limit_that_was_asked_for_a_kill_is_a_result() -> None:
    trace = replace(
        describe_trace(make_trace_of_calls([[(1, 0, NONE)]], [8])), peak_touched=900 * MIB
    )
    check_needs(build(memory="800M"), trace, 700 * MIB)


def test_what_is_touched_and_how_many_threads_there_are_at_once() -> None:
    rows = [[(1, 0, NONE), (2, 1, NONE), (3, NONE, 0)], [(5, 2, NONE)], [(7, 3, NONE)]]
    trace = make_trace_of_calls(rows, [8192, 40_960, 100, 100])
    # The second block's first page and its fifth are touched.
    touched = replace(trace.objects, touch=np.array([NONE, 0, NONE, NONE], np.int32))
    trace = replace(trace, objects=touched, touch_patterns=(((0, 1), (4, 1)),))
    assert describe_trace(trace).peak_touched == 8192 + 8192
    ended = replace(trace.threads[1], ended=6, created_by=0)
    late = replace(trace.threads[2], created_by=0)
    trace = replace(trace, threads=(trace.threads[0], ended, late))
    assert describe_trace(trace).threads_at_once == 2
    assert describe_trace(replace(trace, threads=trace.threads[:1])).threads_at_once == 1


@pytest.mark.parametrize(
    ("changes", "flaw"),
    [
        ({"unknown_frees": 1}, "1 unknown free"),
        ({"double_frees": 2}, "2 double frees"),
        ({"missed_frees": 3000}, "3,000 missed frees"),
    ],
)
def test_frees_that_fit_to_nothing_are_said_by_every_replay(
    changes: dict[str, int], flaw: str
) -> None:
    trace = make_trace_of_calls([[(1, 0, NONE)]], [8])
    assert describe_trace(trace).flaws == []
    assert describe_trace(replace(trace, compiled=CompileFacts(**changes))).flaws == [flaw]
    torn = make_trace_of_calls(
        [], [], ended_by="unknown", not_seen=(f"{LOST_END} (it has no end)",)
    )
    assert describe_trace(torn).flaws == ["its end is missing"]
    for ending, words in (("limit", "at its limit"), ("disk", "as the disk was full")):
        early = describe_trace(make_trace_of_calls([], [], ended_by=ending))
        assert early.flaws == [f"the recording ended early, {words}"]
    # Other tools' traces have no end that could be missing.
    assert describe_trace(make_trace_of_calls([], [], ended_by="unknown")).flaws == []
