"""Order the trials by the experiment's seed. The same experiment has the same order, also after a
resume.
"""

import random
from dataclasses import dataclass
from typing import Literal

from dballoc.experiment.designs import Design
from dballoc.experiment.model import LOAD, Experiment

Role = Literal["A1", "A2", "V"]


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One trial's place. ``attempt`` counts the repeats of a noisy block; ``level`` is set with
    ``levels = "fresh"``, ``workload`` with ``sequence = "fresh"``.
    """

    design: str = Design.SOLO

    block: int
    attempt: int
    position: int
    variant: str
    role: Role
    level: int | None = None
    workload: str | None = None

    @property
    def label(self) -> str:
        """The name of the trial's directory."""
        again = f"-again{self.attempt}" if self.attempt else ""
        cell = "".join(f"-{part}" for part in (self.workload, self.level) if part is not None)
        twin = f"-{self.role}" if self.role != "V" else ""
        prefix = "b" if self.design == Design.SOLO else self.design
        return f"{prefix}{self.block:03}{again}-p{self.position:03}-{self.variant}{twin}{cell}"

    @property
    def servers(self) -> list[tuple[str, Role]]:
        """The variants that the trial starts, each with its role."""
        return [(self.variant, self.role)]


@dataclass(frozen=True, kw_only=True)
class Pairing(Slot):
    """One duet's place: a fresh start of the baseline beside a fresh start of ``variant``.

    ``half``: the half of the CPUs, 0 or 1, that the baseline has in the first slice; ``first``: the
    side that is started first, 0 for the baseline. Both are drawn, so that neither side is always
    favoured.
    """

    design: str = Design.DUET
    baseline: str
    half: int
    first: int

    @property
    def servers(self) -> list[tuple[str, Role]]:
        """The baseline, then its partner."""
        return [(self.baseline, "A1"), *super().servers]

    def halves(self, number: int) -> tuple[int, int]:
        """Return the halves that baseline and partner have in slice ``number`` (from 0). They are
        swapped after every slice.
        """
        first = (self.half + number) % 2
        return first, 1 - first


@dataclass(frozen=True, kw_only=True)
class Rotation(Slot):
    """One trial of turns: fresh starts of all its ``members`` (variants with their roles, the
    baseline's first), which are alive together and have the machine one after the other.
    """

    design: str = Design.TURNS
    members: tuple[tuple[str, Role], ...]
    seed: int

    @property
    def servers(self) -> list[tuple[str, Role]]:
        """The members."""
        return list(self.members)

    def order_starts(self) -> list[int]:
        """Return the order in which the members start, as indices; it is drawn."""
        return self._draw_order("starts")

    def order_round(self, number: int) -> list[int]:
        """Return the order in which the members have their turn in a round, as indices. It is drawn
        anew for each round, so that none always follows the same one.
        """
        return self._draw_order(number)

    def _draw_order(self, purpose: str | int) -> list[int]:
        order = list(range(len(self.members)))
        place = f"{self.seed}:turns:{self.block}:{self.attempt}:{self.position}:{purpose}"
        random.Random(place).shuffle(order)
        return order


def order_block(experiment: Experiment, number: int, attempt: int = 0) -> list[Slot]:
    """Return all trials of block ``number`` (from 1) in their order: every variant once, the
    baseline of each number of CPUs twice.
    """
    members: list[tuple[str, Role]] = []
    for part in experiment.split_by_cpus():
        members += [(part.baseline, "A1"), *_list_others(part)]
    levels: list[int | None] = list(experiment.threads) if experiment.levels == "fresh" else [None]
    workloads: list[str | None] = (
        list(experiment.workloads) if experiment.sequence == "fresh" else [None]
    )
    cells = [
        (name, role, level, w)
        for w in workloads
        for level in levels
        if _has_start(experiment, w, level)
        for name, role in members
    ]
    random.Random(f"{experiment.seed}:{number}:{attempt}").shuffle(cells)
    return [
        Slot(
            block=number,
            attempt=attempt,
            position=i,
            variant=name,
            role=role,
            level=level,
            workload=workload,
        )
        for i, (name, role, level, workload) in enumerate(cells, 1)
    ]


def _list_others(experiment: Experiment) -> list[tuple[str, Role]]:
    """Return what is compared with the baseline's first server: its second, and each variant's."""
    others = [v.name for v in experiment.variant if v.name != experiment.baseline]
    return [(experiment.baseline, "A2"), *((name, "V") for name in others)]


def _has_start(experiment: Experiment, workload: str | None, level: int | None) -> bool:
    """Whether a workload has a start at this level. The load of the tables, alone in its start, has
    one at the highest level only, just as it is one step in a cycle.
    """
    return workload != LOAD or level in (None, experiment.threads[-1])


def order_duets(experiment: Experiment, number: int, attempt: int = 0) -> list[Pairing]:
    """Return all pairings of duet block ``number`` (from 1) in their order: every variant, and the
    baseline again, each against a baseline of its own, so that both servers of a pairing have the
    same age.
    """
    partners = _list_others(experiment)
    draw = random.Random(f"{experiment.seed}:duet:{number}:{attempt}")
    draw.shuffle(partners)
    return [
        Pairing(
            block=number,
            attempt=attempt,
            position=i,
            baseline=experiment.baseline,
            variant=n,
            role=role,
            half=draw.randrange(2),
            first=draw.randrange(2),
        )
        for i, (n, role) in enumerate(partners, 1)
    ]


def order_rotations(
    experiment: Experiment, number: int, attempt: int = 0, *, in_pairs: bool
) -> list[Rotation]:
    """Return the rotations of turns block ``number`` (from 1): one for each number of CPUs, of all
    its variants, and its baseline twice; ``in_pairs``, one for each variant and the baseline, and
    one of the baseline alone, twice. The baseline's first server comes first.

    What is on another number of CPUs is not compared, so it need not be alive at the same time.
    """
    draw = random.Random(f"{experiment.seed}:turns:{number}:{attempt}")
    rotations: list[tuple[tuple[str, Role], ...]] = []
    parts = experiment.split_by_cpus()
    for part in parts:
        others = _list_others(part)
        draw.shuffle(others)
        groups = [[other] for other in others] if in_pairs else [others]
        rotations += [((part.baseline, "A1"), *group) for group in groups]
    if len(parts) > 1:
        draw.shuffle(rotations)
    return [
        Rotation(
            block=number,
            attempt=attempt,
            position=i,
            variant=members[1][0] if in_pairs else members[0][0],
            role=members[1][1] if in_pairs else "A1",
            members=members,
            seed=experiment.seed,
        )
        for i, members in enumerate(rotations, 1)
    ]


def order_pilot(experiment: Experiment, starts: int) -> list[Pairing]:
    """Return the pilot's pairings: the baseline beside itself, ``starts`` times."""
    return [
        Pairing(
            block=0,
            attempt=0,
            position=i,
            baseline=experiment.baseline,
            variant=experiment.baseline,
            role="A2",
            half=i % 2,
            first=i // 2 % 2,
            design="pilot",
        )
        for i in range(1, starts + 1)
    ]
