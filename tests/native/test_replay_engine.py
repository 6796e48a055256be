"""The engine of a replay: on real mallocs it does exactly what the plan says; a plan that is no
plan, or asks for too much, is refused in one line; and it comes to an end, whatever it waits for.
"""

import json
import os
import random
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine import MACHINE
from programs import compiled

from captured_run import run_captured
from dballoc.trace.model import NONE, EventKind, Objects, ThreadEvents, Trace
from dballoc.trace.replay import plan_layout
from dballoc.trace.replay.plan_file import write_plan
from example_traces import make_trace

MALLOCS = ("glibc", "jemalloc", "mimalloc", "tcmalloc", "tbbmalloc")
SOURCES = Path(__file__).parents[2] / "native" / "replay"
# Seconds; generous: the longest takes less than one on a machine that has time.
LONGEST = 120


def preload_of(name: str) -> str:
    return ":".join(map(str, MACHINE.find_libraries(name)))


def run(plan: Path, *options: str, engine: Path | None = None, **env: str) -> Any:
    return run_captured(
        [engine or MACHINE.engine, *options, plan],
        env={"PATH": os.environ["PATH"], **env},
        timeout=LONGEST,
    )


def figures(plan: Path, *options: str, **env: Any) -> dict[str, Any]:
    done = run(plan, *options, **env)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return json.loads(done.stdout)


def refusal(plan: Path, *options: str) -> str:
    done = run(plan, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    return done.stderr


def expected_calls(trace: Trace) -> list[list[int]]:
    """By thread: the live bytes at its end, then its calls of each operation."""
    size = trace.objects.size.astype(np.int64)
    rows = []
    for events in trace.threads:
        live = size[events.object[events.object != NONE]].sum()
        live -= size[events.freed[events.freed != NONE]].sum()
        rows.append([int(live), *np.bincount(events.kind, minlength=7)[1:].tolist()])
    return rows


def expected_live(trace: Trace, epoch_ns: int, epochs: int) -> list[list[int]]:
    """The trace's live bytes at the end of each epoch."""
    change = np.zeros(epochs, np.int64)
    size = trace.objects.size.astype(np.int64)
    for events in trace.threads:
        for column, sign in ((events.object, 1), (events.freed, -1)):
            rows = column != NONE
            np.add.at(change, events.completed[rows] // epoch_ns, sign * size[column[rows]])
    return [[(i + 1) * epoch_ns, int(live)] for i, live in enumerate(np.cumsum(change).tolist())]


def check_figures(trace: Trace, document: dict[str, Any]) -> None:
    assert document["threads"] == expected_calls(trace)
    curve = document["live_curve"]
    assert curve == expected_live(trace, curve[0][0], len(curve))
    assert document["failed"] == 0


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, Path]:
    trace = make_trace(8, 20_000, 11)
    path = tmp_path_factory.mktemp("plan") / "plan"
    write_plan(trace, path)
    return trace, path


@pytest.fixture(scope="module", params=("address,undefined", "thread"))
def sanitized(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engine under a sanitizer, whose malloc it then replays on."""
    program = tmp_path_factory.mktemp("engine") / "engine"
    flags = (
        "-std=c17 -D_GNU_SOURCE -O1 -g -fno-builtin -fno-sanitize-recover=all "
        f"-fsanitize={request.param}"
    )
    subprocess.run(
        [
            "cc",
            *flags.split(),
            "-fno-sanitize-recover=all",
            "-o",
            program,
            *sorted(SOURCES.glob("*.c")),
            "-pthread",
        ],
        check=True,
    )
    return program


@pytest.mark.parametrize("name", MALLOCS)
@pytest.mark.parametrize("options", [(), ("--ahead=-1", "--touch=none"), ("--touch=all",)])
def test_the_replay_is_the_trace_to_the_byte(
    name: str, options: tuple[str, ...], example: tuple[Trace, Path]
) -> None:
    trace, plan = example
    document = figures(plan, *options, LD_PRELOAD=preload_of(name))
    check_figures(trace, document)
    assert document["end"][3] == sum(row[0] for row in expected_calls(trace))
    sampled = sum(row[3] for row in document["operations"])
    calls = sum(row[2] for row in document["operations"])
    assert calls / 100 < sampled < calls / 30
    assert all(sum(n for _, n in row[5]) == row[3] for row in document["operations"])


def test_the_heap_is_what_was_touched(example: tuple[Trace, Path]) -> None:
    _, plan = example
    # mimalloc takes large blocks from the kernel untouched, whoever has used them before
    of = {
        touch: figures(plan, f"--touch={touch}", LD_PRELOAD=preload_of("jemalloc"))["end"][2]
        for touch in ("none", "first", "recorded", "all")
    }
    assert of["none"] < of["first"] < of["recorded"] < of["all"]


def test_the_engine_itself_has_no_heap() -> None:
    done = subprocess.run([MACHINE.engine, "--own"], capture_output=True, text=True, check=True)
    assert 0 < json.loads(done.stdout)["own"] < 400_000


def test_a_replay_in_time_takes_its_time_and_an_idle_one_waits(tmp_path: Path) -> None:
    trace = make_trace(4, 500, 3, step=1_000_000)
    write_plan(trace, tmp_path / "plan")
    seconds = max(int(each.completed[-1]) for each in trace.threads) / 1e9
    document = figures(tmp_path / "plan", "--speed=2", "--idle=0.2")
    check_figures(trace, document)
    # an event may begin 50 us before its moment
    assert document["nanoseconds"] / 1e9 > seconds / 2 - 0.001
    assert document["idle"][1] - document["end"][1] >= 0.2e9


def test_the_clock_of_a_replay_in_time_is_not_its_cpu(tmp_path: Path) -> None:
    """It is read before each event: an event that is late, and one that sleeps."""
    built = compiled("replay_pacing", tmp_path, f"-I{SOURCES}", SOURCES / "pacing.c")
    done = subprocess.run([built], capture_output=True, text=True, check=True, timeout=LONGEST)
    assert done.stdout == f"{1000 * 25} {25 + 700}\n"


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--threads=3", "no more than 3 are allowed"),
        ("--alive=2", "more than 2 threads at once"),
        ("--live-bytes=1000", "no more than 1000 are allowed"),
        ("--touch=some", "recorded, all, first or none"),
        ("--speed=x", "give a number"),
        ("--what", "unknown option"),
    ],
)
def test_a_plan_that_needs_too_much_is_refused(
    option: str, reason: str, example: tuple[Trace, Path]
) -> None:
    assert reason in refusal(example[1], option)


def test_bytes_that_live_within_an_epoch_count(tmp_path: Path) -> None:
    """Each of two threads allocates 300 MB and frees it 1 us later, in one epoch."""
    sizes = np.array([3 * 10**8] * 2, np.uint64)
    nothing = np.zeros(2, np.int32)
    threads = tuple(
        ThreadEvents(
            number=number,
            name="",
            created_by=NONE,
            kind=np.array([EventKind.MALLOC, EventKind.FREE], np.uint8),
            time=np.array([1000, 2000]),
            completed=np.array([1000, 2000]),
            object=np.array([number, NONE]),
            freed=np.array([NONE, number]),
        )
        for number in range(2)
    )
    objects = Objects(
        size=sizes,
        alignment=nothing.astype(np.uint32),
        allocated_by=np.arange(2, dtype=np.int32),
        freed_by=np.arange(2, dtype=np.int32),
        touch=nothing - 1,
    )
    trace = replace(make_trace(1, 1, 1), threads=threads, objects=objects, marks=())
    write_plan(trace, tmp_path / "plan")
    words = "up to 600000000 bytes alive at once, and no more than 599999999 are allowed"
    assert words in refusal(tmp_path / "plan", "--live-bytes=599999999")
    check_figures(trace, figures(tmp_path / "plan", "--live-bytes=600000000", "--touch=first"))


def make_short_trace(first: int, last: int, blocks: int = 1) -> Trace:
    """Blocks of 100 bytes are allocated and freed at these moments, and nothing else happens."""
    numbers, nothing = np.arange(blocks), np.full(blocks, NONE)
    times = np.repeat([first, last], blocks)
    thread = ThreadEvents(
        number=0,
        name="",
        created_by=NONE,
        kind=np.repeat(np.array([EventKind.MALLOC, EventKind.FREE], np.uint8), blocks),
        time=times,
        completed=times,
        object=np.concatenate([numbers, nothing]),
        freed=np.concatenate([nothing, numbers]),
    )
    objects = Objects(
        size=np.full(blocks, 100, np.uint64),
        alignment=np.zeros(blocks, np.uint32),
        allocated_by=np.zeros(blocks, np.int32),
        freed_by=np.zeros(blocks, np.int32),
        touch=np.full(blocks, -1, np.int32),
    )
    return replace(make_trace(1, 1, 1), threads=(thread,), objects=objects, marks=())


def test_a_trace_of_days_takes_memory_for_its_events_alone(tmp_path: Path) -> None:
    """Its 52 million epochs took 16 bytes each in the check, and 12 in the replay."""
    plan = write_plan(make_short_trace(0, 3 * 86400 * 10**9), tmp_path / "plan")
    most = 256 << 20
    done = run_captured(
        ["prlimit", f"--as={most}", MACHINE.engine, "--alive=8", tmp_path / "plan"],
        env={"PATH": os.environ["PATH"]},
        timeout=LONGEST,
    )
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["live_peak"] == 100
    ends = plan.list_stretch_ends()
    assert document["live_curve"] == [[end, 100] for end in ends[:-1]] + [[ends[-1], 0]]


@pytest.mark.parametrize("first", [0, 3600 * 10**9])
def test_an_hour_in_which_nothing_happens_is_no_cpu(first: int, tmp_path: Path) -> None:
    """Blocks are allocated, after an hour too, and freed an hour later, which is 720,000 epochs.
    A thousand of them, so that the events' own CPU is far above the error of a clock's reading.
    """
    trace = make_short_trace(first, first + 3600 * 10**9, blocks=1000)
    write_plan(trace, tmp_path / "plan")
    document = figures(tmp_path / "plan")
    assert document["threads"] == expected_calls(trace)
    # To pass the epochs takes several times as much; none of it is taken off either.
    assert 0 < document["cpu"] < 1_000_000  # ns


@pytest.mark.parametrize("ahead", [0, 1])
def test_a_trace_that_begins_late_is_replayed(ahead: int, tmp_path: Path) -> None:
    trace = make_trace(3, 200, 3)
    for events in trace.threads:
        events.time[:] += 10**9
        events.completed[:] += 10**9
    late = replace(
        trace,
        threads=tuple(
            replace(
                each,
                created=each.created + 10**9 if each.created != NONE else NONE,
                ended=each.ended + 10**9 if each.ended != NONE else NONE,
            )
            for each in trace.threads
        ),
    )
    write_plan(late, tmp_path / "plan")
    check_figures(late, figures(tmp_path / "plan", f"--ahead={ahead}"))


def test_threads_that_are_born_late_and_do_nothing_hold_nobody_up(tmp_path: Path) -> None:
    """One is created, and another frees a block that the trace does not have; neither is told to
    end. Until they have, nobody passes the epoch of their end.
    """
    trace = make_short_trace(0, 10**9)
    [creator] = trace.threads

    def make_leaf(number: int, created: int, frees: list[int]) -> ThreadEvents:
        times = np.array(frees, np.int64)
        nothing = np.full(len(frees), NONE, np.int64)
        return ThreadEvents(
            number=number, name="leaf", created_by=creator.number, created=created,
            kind=np.full(len(frees), EventKind.FREE, np.uint8),
            time=times, completed=times.copy(), object=nothing, freed=nothing.copy(),
        )  # fmt: skip

    leaves = (make_leaf(1, 6 * 10**8, []), make_leaf(2, NONE, [7 * 10**8]))
    late = replace(trace, threads=(creator, *leaves))
    write_plan(late, tmp_path / "plan")
    for ahead in (0, 1):
        document = figures(tmp_path / "plan", f"--ahead={ahead}", "--seconds=20")
        assert document["threads"][0] == expected_calls(trace)[0]
        assert document["live_peak"] == 100


def test_time_is_bounded(tmp_path: Path) -> None:
    write_plan(make_trace(2, 100, 3, step=100_000_000), tmp_path / "plan")
    assert "no more than 1 are allowed" in refusal(tmp_path / "plan", "--speed=1", "--seconds=1")


def test_threads_that_are_gone_give_their_place_to_others(tmp_path: Path) -> None:
    trace = make_trace(400, 20_000, 7, step=100_000)
    alive, most = 0, 0
    births = [
        (each.created if each.created != NONE else int(each.completed[0]), 1)
        for each in trace.threads
        if len(each.kind)
    ]
    deaths = [(each.ended, -1) for each in trace.threads if each.ended != NONE]
    for _, change in sorted(births + deaths):
        alive += change
        most = max(most, alive)
    write_plan(trace, tmp_path / "plan")
    # one that is ahead is alive sooner; all at once would be 400
    assert most + 60 < 400
    check_figures(trace, figures(tmp_path / "plan", f"--alive={most + 60}"))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 24),
    st.integers(1, 3000),
    st.integers(0, 10**6),
    st.sampled_from((0.0, 0.5, 1.0)),
    st.sampled_from((1, 1000, 1_000_000)),
    st.sampled_from((-1, 0, 1)),
)
def test_every_replay_comes_to_its_end(
    tmp_path_factory: pytest.TempPathFactory,
    threads: int,
    events: int,
    seed: int,
    handed: float,
    step: int,
    ahead: int,
) -> None:
    trace = make_trace(threads, events, seed, handed=handed, step=step)
    path = tmp_path_factory.mktemp("plan") / "plan"
    write_plan(trace, path)
    check_figures(trace, figures(path, f"--ahead={ahead}", "--touch=first"))


def test_no_sanitizer_complains(sanitized: Path, tmp_path: Path) -> None:
    for seed, options in enumerate(([], ["--ahead=-1"], ["--touch=all", "--speed=100"])):
        trace = make_trace(8, 3000, seed, handed=0.4)
        write_plan(trace, tmp_path / f"plan-{seed}")
        env = {"ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1"}
        done = run(tmp_path / f"plan-{seed}", *options, engine=sanitized, **env)
        assert (done.returncode, done.stderr) == (0, "")
        check_figures(trace, json.loads(done.stdout))


def damage(data: bytes, rng: random.Random) -> bytes:
    """The plan with some bytes, a word or its end changed."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed))
        match rng.randrange(4):
            case 0:
                changed[at] = rng.randrange(256)
            case 1:
                changed[at] ^= 1 << rng.randrange(8)
            case 2:
                word = rng.choice((0, 1, 2**32 - 1, 2**63, 2**64 - 1, rng.randrange(2**64)))
                at -= at % 8
                changed[at : at + 8] = word.to_bytes(8, "little")
            case _:
                first, second = (8 * rng.randrange(len(changed) // 8) for _ in range(2))
                changed[first : first + 8], changed[second : second + 8] = (
                    changed[second : second + 8],
                    changed[first : first + 8],
                )
    return bytes(changed[: rng.choice((len(changed),) * 9 + (rng.randrange(len(changed)),))])


def test_damaged_plans_are_refused_or_replayed(sanitized: Path, tmp_path: Path) -> None:
    write_plan(make_trace(3, 60, 5), tmp_path / "whole")
    data = (tmp_path / "whole").read_bytes()
    env = {"ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1"}
    options = ("--seconds=1", "--live-bytes=100000000")
    statuses = set()
    for seed in range(60):
        (tmp_path / "plan").write_bytes(damage(data, random.Random(seed)))
        done = run(tmp_path / "plan", *options, engine=sanitized, **env)
        assert done.returncode in (0, 2, 3), done.stderr
        assert done.returncode != 2 or done.stderr.count("\n") == 1
        statuses.add(done.returncode)
    assert 2 in statuses


def test_threads_that_wait_for_each_other_are_an_end(tmp_path: Path) -> None:
    """Two threads that each free the other's block before they allocate their own: such a plan
    comes from no trace.
    """
    write_plan(make_trace(1, 1, 1), tmp_path / "whole")
    kinds = plan_layout.RecordKind
    what, amount = plan_layout.pack_what, plan_layout.pack_amount
    records = np.zeros(8, plan_layout.RECORD)
    for thread in (0, 1):
        own = records[4 * thread : 4 * thread + 4]
        own["what"] = [
            what(0, kinds.TICK),
            what(1 - thread, kinds.FREE, shared=True),
            what(thread, kinds.MALLOC, shared=True),
            what(0, kinds.END),
        ]
        own["amount"][1:3] = amount(64, 0)
    header = np.frombuffer((tmp_path / "whole").read_bytes(), plan_layout.HEADER, 1).copy()
    threads = np.array([(0, 4, 0, 3), (4, 4, 0, 3)], plan_layout.THREAD)
    for name, value in {
        "threads": 2, "records": 8, "shared": 2, "epochs": 1, "patterns": 0, "runs": 0, "marks": 0,
    }.items():  # fmt: skip
        header[name] = value
    header["bytes"] = header.nbytes + threads.nbytes + records.nbytes
    (tmp_path / "plan").write_bytes(header.tobytes() + threads.tobytes() + records.tobytes())
    done = run(tmp_path / "plan", "--seconds=2")
    assert done.returncode == 3
    assert json.loads(done.stdout)["fault"]["kind"] == "hang"


def test_a_free_with_a_size_reaches_a_malloc_that_has_one(
    preload: Callable[[str], Path], tmp_path: Path
) -> None:
    trace = make_trace(2, 2000, 9)
    write_plan(trace, tmp_path / "plan")
    done = run(tmp_path / "plan", LD_PRELOAD=str(preload("sized_frees")))
    assert done.returncode == 0
    assert "dballoc" not in done.stderr.replace("sized frees:", "")
    sized = sum(int((each.kind == EventKind.FREE_SIZED).sum()) for each in trace.threads)
    assert f"sized frees: {sized}" in done.stderr
