"""A verdict, and the case that rules decide on: a series of snapshots with its thresholds. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from dballoc.evidence.model import Evidence
from dballoc.experiment.durations_and_sizes import parse_size
from dballoc.explain.ledger.configuration_limits import Bounds
from dballoc.explain.ledger.ledger import Ledger
from dballoc.explain.ledger.ledger_line import LIVE, MAPPED
from dballoc.explain.verdicts.growth import Growth, estimate_growth
from dballoc.process.mapping_kind import MappingKind

# problem: something to do; notice: something to know; fine: checked, and nothing wrong; open: these
# data cannot decide it.
Level = Literal["problem", "notice", "fine", "open"]

# The owners of live heap that no owner claims.
UNLABELLED = (LIVE, MAPPED, MappingKind.MALLOC)


@dataclass(frozen=True, kw_only=True)
class MemoryVerdict:
    """``key``: fixed, for scripts; ``headline``: a sentence; ``evidence``: the figures behind it;
    ``remedies``: what to do, the best first; ``bytes``: the resident memory that it is about, 0
    where it is about none that it could name.
    """

    key: str
    level: Level
    headline: str
    evidence: list[str] = field(default_factory=list)
    remedies: list[str] = field(default_factory=list)
    bytes: int = 0


class Moment(NamedTuple):
    """One snapshot of a series: Unix time, ledger, and what verdicts need beside it."""

    timestamp: float
    ledger: Ledger
    evidence: Evidence


@dataclass(frozen=True)
class Case:
    """What the rules decide on. ``series``: every snapshot, the last one ``now``; ``limits``:
    verdicts.toml.
    """

    series: Sequence[Moment]
    bounds: Bounds | None
    limits: Mapping[str, Any]

    @property
    def now(self) -> Moment:
        """Return the last snapshot, on which the verdicts are."""
        return self.series[-1]

    @property
    def ledger(self) -> Ledger:
        """Return the last snapshot's ledger."""
        return self.now.ledger

    @property
    def evidence(self) -> Evidence:
        """Return what the last snapshot has beside its ledger."""
        return self.now.evidence

    @property
    def rss(self) -> int:
        """Return the last snapshot's RSS, bytes."""
        return self.ledger.rss

    def estimate_growth(self, measure: Callable[[Moment], float]) -> Growth | None:
        """Estimate it of what ``measure`` returns for each snapshot; None if these are too few."""
        limits = self.limits["growth"]
        return estimate_growth(
            [moment.timestamp for moment in self.series],
            [measure(moment) for moment in self.series],
            limits["stretches"],
            limits["looks"],
        )

    def exceeds(self, size: float, table: str, share: str = "rss") -> bool:
        """Whether a size is above the thresholds of a table: a share of RSS and a least size."""
        limits = self.limits[table]
        return size >= limits.get(share, 0) * self.rss and size >= parse_size(
            limits.get("least", "0K")
        )
