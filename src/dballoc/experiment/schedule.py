"""The seeded order of trials. The same experiment gives the same order, today and after a resume."""

import random
from dataclasses import dataclass
from typing import Literal

from dballoc.experiment.model import Experiment

Role = Literal["A1", "A2", "V"]


@dataclass(frozen=True)
class Slot:
    """One trial's place. ``attempt`` counts the repeats of a noisy block; ``level`` is set with ``levels = "fresh"``."""

    block: int
    attempt: int
    position: int
    variant: str
    role: Role
    level: int | None = None

    @property
    def label(self) -> str:
        """The name of the trial's directory."""
        again = f"-again{self.attempt}" if self.attempt else ""
        level = f"-{self.level}" if self.level is not None else ""
        twin = f"-{self.role}" if self.role != "V" else ""
        return f"b{self.block:03}{again}-p{self.position:03}-{self.variant}{twin}{level}"


def block(experiment: Experiment, number: int, attempt: int = 0) -> list[Slot]:
    """All trials of block ``number`` (from 1) in their order: every variant once, the baseline twice."""
    members: list[tuple[str, Role]] = [(experiment.baseline, "A1"), (experiment.baseline, "A2")]
    members += [(v.name, "V") for v in experiment.variant if v.name != experiment.baseline]
    levels: list[int | None] = list(experiment.threads) if experiment.levels == "fresh" else [None]
    cells = [(name, role, level) for level in levels for name, role in members]
    random.Random(f"{experiment.seed}:{number}:{attempt}").shuffle(cells)
    return [Slot(number, attempt, i, name, role, level) for i, (name, role, level) in enumerate(cells, 1)]
