"""What happens inside one trial, in order."""

from dataclasses import dataclass
from typing import Literal

from dballoc.experiment.model import Experiment
from dballoc.experiment.schedule import Slot

Kind = Literal["sql", "warmup", "level", "idle", "slices"]


@dataclass(frozen=True)
class Step:
    """``seconds`` is planned time; a piece of SQL takes as long as it takes (0 here)."""

    number: int
    kind: Kind
    seconds: float = 0.0
    workload: str | None = None
    threads: int | None = None
    sql: str | None = None

    @property
    def title(self) -> str:
        """For the display and the raw files: ``level oltp_read_only 16``."""
        return " ".join(str(p) for p in (self.kind, self.workload, self.threads) if p is not None)


def cycle(experiment: Experiment, slot: Slot) -> list[Step]:
    """The steps of a trial: the warm-up SQL, then for each workload a warm-up and its rising levels, then idle.

    The warm-up runs at the workload's lowest level: a higher one would lift the memory that the first levels show.
    """
    levels = experiment.threads if slot.level is None else [slot.level]
    steps: list[Step] = []

    def add(kind: Kind, **more: object) -> None:
        steps.append(Step(len(steps) + 1, kind, **more))  # type: ignore[arg-type]

    for sql in warmup_statements(experiment):
        add("sql", sql=sql)
    for workload in experiment.workloads:
        if experiment.time.warmup:
            add("warmup", seconds=experiment.time.warmup, workload=workload, threads=levels[0])
        for threads in levels:
            add("level", seconds=experiment.time.level, workload=workload, threads=threads)
    if experiment.time.idle:
        add("idle", seconds=experiment.time.idle)
    return steps


def warmup_statements(experiment: Experiment) -> list[str]:
    """The file's ``warmup_sql``, or a scan of every table of sysbench's, as the 2012 comparison had it.

    Own data, and the data that a script of the user's may make, have tables that nobody here knows: no scan.
    """
    if experiment.warmup_sql is not None:
        return experiment.warmup_sql
    own = [experiment.workload[name] for name in experiment.workloads if name in experiment.workload]
    if experiment.data.own or any(w.script is not None for w in own):
        return []
    return [f"SELECT AVG(id) FROM sbtest{i} FORCE KEY (PRIMARY)" for i in range(1, experiment.data.tables + 1)]


def idle_or_load_seconds(steps: list[Step]) -> float:
    """The time spent on purpose: measuring, warming up, idling."""
    return sum(step.seconds for step in steps)
