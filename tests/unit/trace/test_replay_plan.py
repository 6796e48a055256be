"""The plan of a replay: it holds exactly the trace's events, and whoever reads it needs to wait for
no block but those of other threads.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dballoc.ground.errors import UsageError
from dballoc.trace.model import NONE, EventKind, Mark, Objects, Trace
from dballoc.trace.replay import plan_layout
from dballoc.trace.replay.make_records import assign_slots
from dballoc.trace.replay.plan_file import choose_epoch, write_plan
from dballoc.trace.replay.plan_layout import RecordKind
from dballoc.trace.replay.thread_births import find_births
from example_traces import PATTERNS, make_trace

ALLOCATES = {RecordKind.MALLOC, RecordKind.CALLOC, RecordKind.ALIGNED, RecordKind.REALLOC}
FREES = {RecordKind.FREE, RecordKind.FREE_SIZED, RecordKind.FROM}


@dataclass
class Plan:
    """A plan as it is in its file: each thread's records as (kind, number, shared, size, …)."""

    header: np.void
    threads: np.ndarray
    records: list[list[dict[str, int]]]
    marks: list[int]


def read_plan(path: Path) -> Plan:
    data = path.read_bytes()
    header = np.frombuffer(data, plan_layout.HEADER, 1)[0]
    at = plan_layout.HEADER.itemsize
    sections = []
    for dtype, name in (
        (plan_layout.THREAD, "threads"),
        (plan_layout.RECORD, "records"),
        (plan_layout.PATTERN, "patterns"),
        (plan_layout.RUN, "runs"),
        (plan_layout.MARK, "marks"),
    ):
        count = int(header[name])
        sections.append(np.frombuffer(data, dtype, count, at))
        at += dtype.itemsize * count
    assert at == len(data) == int(header["bytes"])
    threads, records, _, _, marks = sections
    parts = [records[int(t["first"]) : int(t["first"] + t["records"])] for t in threads]
    return Plan(
        header,
        threads,
        [
            [unpack(int(what), int(amount)) for what, amount in part.tolist()]
            for part in map(np.asarray, parts)
        ],
        marks["time"].tolist(),
    )


def unpack(what: int, amount: int) -> dict[str, int]:
    return {
        "number": what & 0xFFFFFFFF,
        "kind": what >> 32 & 15,
        "shared": what >> 36 & 1,
        "pattern": what >> 37 & 1,
        "power": what >> 40 & 63,
        "size": amount & plan_layout.LARGEST_SIZE,
        "offset": amount >> 40,
    }


def expected_records(trace: Trace, index: int) -> list[tuple[int, ...]]:
    """(kind, ns, size, alignment) of each record of a thread that is of a block."""
    events, objects = trace.threads[index], trace.objects
    rows = []
    for kind, time, new, old in zip(
        events.kind.tolist(),
        events.completed.tolist(),
        events.object.tolist(),
        events.freed.tolist(),
        strict=True,
    ):
        if old != NONE and kind == EventKind.REALLOC:
            rows.append((RecordKind.FROM, time, old))
        elif old != NONE:
            rows.append((kind, time, old))
        if new != NONE:
            rows.append((kind, time, new))
    return [
        (int(kind), time, int(objects.size[n]), max(1, int(objects.alignment[n])))
        for kind, time, n in rows
    ]


def check_plan(trace: Trace, plan: Plan) -> None:
    epoch_ns = int(plan.header["epoch_ns"])
    given_shared, taken_shared = {}, {}
    for index, records in enumerate(plan.records):
        epoch, moment, slots, rows, created_at = NONE, NONE, {}, [], []
        for place, record in enumerate(records):
            kind = record["kind"]
            if kind == RecordKind.TICK:
                assert record["number"] > epoch
                epoch = record["number"]
                continue
            assert epoch != NONE
            moment = epoch * epoch_ns + record["offset"]
            if kind == RecordKind.CREATE:
                created_at.append(moment)
            if kind in ALLOCATES | FREES:
                rows.append((kind, moment, record["size"], 1 << record["power"]))
            if kind in ALLOCATES:
                if record["shared"]:
                    assert given_shared.setdefault(record["number"], (index, moment)) == (
                        index,
                        moment,
                    )
                else:
                    assert record["number"] not in slots
                    assert record["number"] < plan.threads[index]["slots"]
                    slots[record["number"]] = record["size"]
                assert record["pattern"] == (records[place + 1]["kind"] == RecordKind.TOUCH)
            elif kind in FREES:
                if record["shared"]:
                    assert record["number"] not in taken_shared
                    taken_shared[record["number"]] = (index, moment)
                else:
                    assert slots.pop(record["number"]) == record["size"]
            if kind == RecordKind.FROM:
                assert records[place + 1]["kind"] == RecordKind.REALLOC
        assert records[-1]["kind"] == RecordKind.END
        # A thread may create another that does nothing until after its end.
        if trace.threads[index].ended != NONE:
            assert moment == max([trace.threads[index].ended, *created_at])
        assert rows == expected_records(trace, index)
    assert given_shared.keys() == taken_shared.keys() == set(range(int(plan.header["shared"])))
    for number, (giver, since) in given_shared.items():
        taker, moment = taken_shared[number]
        assert giver != taker
        assert since <= moment


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 400),
    st.integers(0, 10**6),
    st.sampled_from((0.0, 0.2, 1.0)),
    st.sampled_from((0, 100, 10_000_000)),
    st.booleans(),
)
def test_a_plan_holds_exactly_the_traces_events(
    tmp_path_factory: pytest.TempPathFactory,
    threads: int,
    events: int,
    seed: int,
    handed: float,
    step: int,
    births: bool,
) -> None:
    trace = make_trace(threads, events, seed, handed=handed, step=step or 1, births=births)
    path = tmp_path_factory.mktemp("plan") / "plan"
    written = write_plan(trace, path)
    plan = read_plan(path)
    check_plan(trace, plan)
    assert written.events == sum(len(each.kind) for each in trace.threads)
    assert written.left_out == 0
    assert plan.marks == [mark.time for mark in trace.marks]


def test_every_thread_is_created_once_and_before_its_first_event(tmp_path: Path) -> None:
    trace = make_trace(12, 3000, 5)
    write_plan(trace, tmp_path / "plan")
    plan = read_plan(tmp_path / "plan")
    created = {}
    for index, records in enumerate(plan.records):
        epoch = 0
        for record in records:
            if record["kind"] == RecordKind.TICK:
                epoch = record["number"] * int(plan.header["epoch_ns"])
            if record["kind"] == RecordKind.CREATE:
                assert record["number"] not in created
                created[record["number"]] = (index, epoch + record["offset"])
    roots = {i for i, t in enumerate(plan.threads) if t["flags"] & plan_layout.THREAD_ROOT}
    assert roots | created.keys() == set(range(len(trace.threads)))
    assert not roots & created.keys()
    for child, (creator, moment) in created.items():
        thread = trace.threads[child]
        assert thread.created_by == creator
        if thread.created == NONE:
            assert moment <= thread.completed[0]
        else:
            assert moment == thread.created < thread.completed[0]
    stays = {i for i, t in enumerate(plan.threads) if t["flags"] & plan_layout.THREAD_STAYS}
    assert stays == {i for i, each in enumerate(trace.threads) if each.ended == NONE}


def test_threads_that_create_each_other_and_strangers_children_are_roots() -> None:
    trace = make_trace(4, 400, 2, births=False)
    circle = [
        replace(each, number=10 * i, created_by=by)
        for i, (each, by) in enumerate(zip(trace.threads, (10, 0, 20, 99), strict=True))
    ]
    births = find_births(replace(trace, threads=tuple(circle)))
    assert len(births.roots & {0, 1}) == 1
    assert {2, 3} <= births.roots
    assert sum(map(len, births.by_creator.values())) == 1


@given(st.lists(st.booleans(), max_size=200), st.randoms())
def test_slots_are_used_again_as_from_a_stack(choices: list[bool], random: object) -> None:
    allocates, blocks, alive, free, expected = [], [], [], [], []
    for choice in choices:
        if choice or not alive:
            allocates.append(True)
            blocks.append(len(expected))
            alive.append(len(expected))
            used = len(set(expected))
            expected.append(free.pop() if free else used)
        else:
            number = alive.pop(random.randrange(len(alive)))  # type: ignore[attr-defined]
            allocates.append(False)
            blocks.append(number)
            free.append(expected[number])
    slots, count = assign_slots(np.array(allocates, np.bool_), np.array(blocks, np.int32))
    assert slots.tolist() == expected
    assert count == len(set(expected))


def test_frees_of_blocks_that_the_trace_does_not_allocate_are_left_out(tmp_path: Path) -> None:
    trace = make_trace(1, 200, 3)
    events = trace.threads[0]
    lost = events.object[np.flatnonzero(events.kind == EventKind.MALLOC)[0]]
    kept = events.object != lost
    cut = replace(
        events,
        **{
            name: getattr(events, name)[kept]
            for name in ("kind", "time", "completed", "object", "freed")
        },
    )
    plan = write_plan(replace(trace, threads=(cut,)), tmp_path / "plan")
    frees = int(np.count_nonzero((cut.freed == lost) & (cut.object == NONE)))
    assert plan.left_out == frees
    assert plan.events == len(cut.kind) - frees


def test_a_trace_of_nothing_but_frees_of_older_blocks_has_an_empty_plan(tmp_path: Path) -> None:
    trace = make_trace(1, 50, 3)
    events = trace.threads[0]
    rows = (events.freed != NONE) & (events.object == NONE)
    frees = replace(
        events,
        kind=events.kind[rows],
        time=events.time[rows],
        completed=events.completed[rows],
        object=events.object[rows],
        freed=np.full(int(rows.sum()), NONE),
    )
    nothing = Objects(
        size=np.array([], np.uint64),
        alignment=np.array([], np.uint32),
        allocated_by=np.array([], np.int32),
        freed_by=np.array([], np.int32),
        touch=np.array([], np.int32),
    )
    late = replace(trace, threads=(frees,), objects=nothing, marks=trace.marks[::-1])
    plan = write_plan(late, tmp_path / "plan")
    assert (plan.events, plan.left_out) == (0, int(rows.sum()))
    assert plan.marks == ("half", "end")
    (records,) = read_plan(plan.path).records
    assert [record["kind"] for record in records] == [RecordKind.TICK, RecordKind.END]


def broken(trace: Trace, what: str) -> Trace:
    first = trace.threads[0]
    objects = trace.objects
    rows = np.flatnonzero(first.object != NONE)
    freeing = np.flatnonzero((first.freed != NONE) & (first.object == NONE))
    match what:
        case "twice":
            first.object[rows[1]] = first.object[rows[0]]
        case "freed twice":
            first.freed[freeing[1]] = first.freed[freeing[0]]
        case "unknown":
            first.object[rows[0]] = len(objects.size)
        case "negative":
            first.object[rows[0]] = -5
        case "backwards":
            first.time[5] = first.completed[5] = 0
        case "before":
            first.freed[freeing[0]] = first.object[rows[rows > freeing[0]][0]]
        case "kind":
            first.kind[0] = 7
        case "large":
            objects.size[0] = 1 << 40
        case "alignment":
            objects.alignment[0] = 3
        case "touch":
            objects.touch[0] = len(PATTERNS)
        case "short":
            return replace(trace, threads=(replace(first, kind=first.kind[1:]),))
        case "nothing":
            return replace(trace, threads=())
        case "mark":
            return replace(trace, marks=(Mark(time=-1, name="x", truth={}),))
        case "run":
            return replace(trace, touch_patterns=(((-1, 2),),) * len(PATTERNS))
    return trace


@pytest.mark.parametrize(
    "what",
    "twice|freed twice|unknown|negative|backwards|before|kind|large|alignment|touch|short|nothing|"
    "mark|run".split("|"),
)
def test_a_trace_that_cannot_be_replayed_is_refused_in_one_line(what: str, tmp_path: Path) -> None:
    trace = broken(make_trace(1, 300, 4), what)
    with pytest.raises(UsageError) as refusal:
        write_plan(trace, tmp_path / "plan")
    assert "\n" not in str(refusal.value)
    assert str(refusal.value).startswith("trace: ")
    assert not (tmp_path / "plan").exists()


def test_the_epochs_of_a_trace_of_days_are_longer() -> None:
    day = 86400 * 10**9
    assert choose_epoch(600 * 10**9) == 5_000_000
    assert choose_epoch(600 * 10**9, 20_000) == 5_000_000
    assert choose_epoch(10**9, 1_000_000) == 200_000
    assert choose_epoch(10**9, 10**9) == 50_000
    assert 5_000_000 < choose_epoch(10 * day) <= plan_layout.LONGEST_EPOCH
    with pytest.raises(UsageError, match="days"):
        choose_epoch(20 * day)
