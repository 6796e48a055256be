"""What a campaign measures: the catalogue's measures, and where a campaign has them. Pure."""

import operator
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, reduce
from typing import TYPE_CHECKING, Any, Literal

from dballoc import catalogue
from dballoc.experiment.designs import Design
from dballoc.experiment.model import REPLAY
from dballoc.ground.numbers import count

if TYPE_CHECKING:
    import polars as pl

Question = Literal["memory", "speed"]

# How many stored units a shown one has.
_SIZES = {"MiB": 2**20, "KiB": 2**10}


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A measure, as catalogue/measures.toml describes it field by field."""

    name: str
    group: str
    better: str
    unit: str
    label: str
    short: str = ""
    chart: str = ""
    axis: str = ""
    heading: str = ""
    change: str = ""
    published: str = ""
    trial: str = ""
    step: tuple[str, ...] = ()
    per: str = ""
    factor: float = 1.0
    levels: str = ""
    condition: str = ""
    question: Question | None = None
    error: float = 0.0
    designs: tuple[Design, ...] = (Design.SOLO,)
    shown_in: str = ""
    logarithmic: bool = False
    host: bool = False
    replay: Mapping[str, Any] = field(default_factory=dict, hash=False, compare=False)

    def choose_design(self, designs: Collection[str]) -> Design | None:
        """Return the design that judges it in campaigns of these; None if none of them does."""
        return next((design for design in self.designs if design in designs), None)

    @property
    def scale(self) -> float:
        """What a stored value is multiplied with to be shown."""
        return 1 / _SIZES.get(self.shown_in, 1)

    @property
    def expression(self) -> "pl.Expr":
        """A level's value from its step's columns; null where no operation ended in the window."""
        import polars as pl  # here: what only measures has none of it

        value = reduce(operator.add, map(pl.col, self.step))
        if self.per:
            value = value / pl.when(pl.col(self.per) > 0).then(pl.col(self.per))
        return (value * self.factor).cast(pl.Float64).alias(self.levels)


@cache
def list_measures(*, is_replay: bool = False) -> dict[str, Measure]:
    """Return the measures by name; those of a replay have its words."""
    measures = {}
    for name, entry in catalogue.measures()["measure"].items():
        words = dict.fromkeys(("short", "axis", "published"), entry["label"]) | {"levels": name}
        described = words | entry | (entry.get("replay", {}) if is_replay else {})
        measures[name] = Measure(
            **described
            | {
                "name": name,
                "short": described["label" if is_replay else "short"],
                "step": tuple(entry.get("step", ())),
                "question": described.get("question") or None,
                "designs": tuple(map(Design, described.get("designs", [Design.SOLO]))),
            }
        )
    return measures


MEASURES = list_measures()
# The measures of a level, by the name that tables of levels have.
OF_LEVEL = {m.levels: m for m in MEASURES.values() if m.step}
# The measures that a condition can name, by that name.
CONDITIONS = {m.condition: m for m in MEASURES.values() if m.condition}
# The measures that have verdicts, memory's first.
JUDGED = tuple(
    sorted(
        (m for m in MEASURES.values() if m.question),
        key=lambda m: (m.question != "memory", -m.error),
    )
)


def list_judged(designs: Collection[str]) -> list[str]:
    """Return the names of the measures that have verdicts in campaigns of these designs."""
    return [m.name for m in JUDGED if m.choose_design(designs)]


# The sections of the report that show levels: their titles, by the groups of measures.
GROUPS: dict[str, str] = {k: group["title"] for k, group in catalogue.measures()["group"].items()}
# What tables show as differences to the baseline, by the name in tables of levels.
CHANGES = {m.levels: m.change for m in MEASURES.values() if m.change}
PEAK, IDLE, THROUGHPUT, CPU = (MEASURES[n] for n in ("rss_peak", "rss_idle", "tps", "cpu"))


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A measure where a campaign has it: in a ``workload`` with so many clients (``threads``); both
    are None for a measure of the whole trial.
    """

    measure: Measure
    workload: str | None = None
    threads: int | None = None
    design: Design = Design.SOLO

    @property
    def key(self) -> str:
        """Its name in files: ``tps:oltp_read_only``, or ``rss_peak``."""
        return ":".join(filter(None, (self.measure.name, self.workload)))

    @property
    def better(self) -> str:
        """``higher`` or ``lower``."""
        return self.measure.better

    @property
    def question(self) -> Question | None:
        """Which question it answers; None for one that is descriptive."""
        return self.measure.question if self.design in self.measure.designs else None

    @property
    def title(self) -> str:
        """``oltp_read_only, transactions per second at 4 clients``, or ``peak RSS``."""
        label = self.measure.label
        if self.workload in (None, REPLAY):
            return label
        if self.design is Design.DUET:
            return f"{self.workload}, server {label} at half width"
        level = f" at {count(self.threads, 'client')}" if self.threads else ""
        return f"{self.workload}, {label}{level}"
