"""Plan what happens inside one trial, in order."""

from dataclasses import dataclass, replace
from typing import Literal

from dballoc.experiment.model import LOAD, SCAN, SETTLE, Experiment
from dballoc.experiment.schedule import Slot

Kind = Literal["sql", "warmup", "settle", "level", "idle", "slices", "turns", "profile"]

# A replica that is farther behind when a level's load ends, in seconds, does not keep up.
KEEPS_UP = 1.0

# Seconds that are profiled, if the levels are that long.
LONGEST_PROFILE = 10.0


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step. ``seconds``: planned time; 0 for a piece of SQL or the load of the tables, which
    take as long as they take. A profile's load goes on until that many seconds were profiled.
    """

    number: int
    kind: Kind
    seconds: float = 0.0
    workload: str | None = None
    threads: int | None = None
    sql: str | None = None

    @property
    def title(self) -> str:
        """The step in words for the display and the raw files: ``level oltp_read_only 16``."""
        return " ".join(str(p) for p in (self.kind, self.workload, self.threads) if p is not None)

    @property
    def file_name(self) -> str:
        """The same as a part of raw files' names: ``04-level-oltp_read_only-16``."""
        return f"{self.number:02}-{self.title.replace(' ', '-')}"

    @property
    def stored_kind(self) -> str:
        """The kind in the results: settling is stored as what it begins with, statements."""
        return "sql" if self.kind == "settle" else self.kind


def plan_steps(experiment: Experiment, slot: Slot, tables: bool = True) -> list[Step]:
    """Plan the steps of a trial: the load of the tables where there is one, the warm-up SQL, then
    for each workload a warm-up (or one for all, or what is to run before it, where the experiment
    says so) and its rising levels, then idle; after all that, unmeasured, the loads that are
    profiled once more. ``tables``: whether sysbench's tables are there.

    Warm-ups run at the lowest level: a higher one would raise the memory that the first levels
    show.
    """
    levels = experiment.threads if slot.level is None else [slot.level]
    steps: list[Step] = []

    def add_step(kind: Kind, **more: object) -> None:
        steps.append(Step(number=len(steps) + 1, kind=kind, **more))  # type: ignore[arg-type]

    def add_warm_up(workload: str) -> None:
        if workload == SETTLE:
            add_step("settle", seconds=experiment.time.settle)
        elif experiment.time.warmup:
            add_step("warmup", seconds=experiment.time.warmup, workload=workload, threads=levels[0])

    workloads = experiment.runs(slot.workload)
    if LOAD in workloads:
        add_step("level", workload=LOAD, threads=levels[-1])
    if timed := [w for w in workloads if w != LOAD]:
        for sql in list_warmup_statements(experiment, tables):
            add_step("sql", sql=sql)
        for workload in experiment.warm:
            add_warm_up(workload)
        for workload in timed:
            for name in experiment.before.get(workload, [] if experiment.warm else [workload]):
                add_warm_up(name)
            for threads in levels:
                add_step("level", seconds=experiment.time.level, workload=workload, threads=threads)
    if experiment.time.idle:
        add_step("idle", seconds=experiment.time.idle)
    if experiment.profile == "contention" and is_profiled(experiment, slot):
        steps += _plan_profiles(experiment, slot, len(steps))
    return steps


def plan_probe_steps(experiment: Experiment, slot: Slot, tables: bool = True) -> list[Step]:
    """Plan the steps of a start for the heap profile, which measures nothing: what fills the
    server, then for each workload that is profiled a warm-up and its load, at that level.
    """
    profiled = experiment.list_profiled(None)
    once = experiment.model_copy(
        update={
            "threads": [experiment.profiled_level],
            "workloads": [w for w in experiment.workloads if w == LOAD or w in profiled],
        }
    )
    steps = [
        s
        for s in plan_steps(once, slot, tables)
        if s.kind in ("sql", "warmup") or s.workload == LOAD
    ]
    filling = [replace(step, number=number) for number, step in enumerate(steps, 1)]
    return [*filling, *_plan_profiles(experiment, slot, len(filling))]


def _plan_profiles(experiment: Experiment, slot: Slot, after: int) -> list[Step]:
    """Plan a profile of each workload that has one; numbers go on after ``after``."""
    seconds = min(LONGEST_PROFILE, experiment.time.level)
    return [
        Step(
            number=n,
            kind="profile",
            seconds=seconds,
            workload=workload,
            threads=experiment.profiled_level,
        )
        for n, workload in enumerate(experiment.list_profiled(slot.workload), after + 1)
    ]


def is_profiled(experiment: Experiment, slot: Slot) -> bool:
    """Whether a trial is profiled: those of the first solo block with the workload and at the level
    that are profiled, each variant once.
    """
    return (
        slot.block == 1
        and slot.role != "A2"
        and slot.level in (None, experiment.profiled_level)
        and bool(experiment.list_profiled(slot.workload))
    )


def is_recorded(experiment: Experiment, slot: Slot) -> bool:
    """Whether a trial's steps are run once more while its allocations are recorded: of the first
    solo block, the baseline's first start, with the first workload and at the highest level where
    these have starts of their own.
    """
    return (
        experiment.record is not None
        and slot.block == 1
        and slot.role == "A1"
        and slot.level in (None, experiment.threads[-1])
        and slot.workload in (None, experiment.workloads[0])
    )


def list_warmup_statements(experiment: Experiment, tables: bool = True) -> list[str]:
    """Return the file's ``warmup_sql``, or a scan of each of sysbench's tables (``tables``: whether
    they are there), as the 2012 comparison had it.

    There is no scan of the user's own data, or of data that a script of the user's may make: their
    tables are not known here. Nor is there one where the experiment says what warms the server up,
    unless it asks for both.
    """
    if isinstance(experiment.warmup_sql, list):
        return experiment.warmup_sql
    workloads = [
        experiment.workload[name] for name in experiment.workloads if name in experiment.workload
    ]
    if (
        not tables
        or (experiment.warm and experiment.warmup_sql != SCAN)
        or experiment.data.own
        or any(w.script is not None for w in workloads)
    ):
        return []
    return [
        f"SELECT AVG(id) FROM sbtest{i} FORCE KEY (PRIMARY)"
        for i in range(1, experiment.data.tables + 1)
    ]


def sum_planned_seconds(steps: list[Step]) -> float:
    """Return the planned seconds: measuring, warming up, idling."""
    return sum(step.seconds for step in steps)
