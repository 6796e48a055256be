"""Find what became here of a collapse that a post has under many clients. Pure.

The post's baseline collapses and its other variants don't, so a collapse of ours is the post's only
if the same variants go on here: where they fall too, or the baseline falls hardly further than
they, something else than the allocator slows the server down.
"""

import statistics
from dataclasses import dataclass
from enum import StrEnum

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.published.measured_figures import MeasuredFigures
from dballoc.analysis.published.published_figures import Published, PublishedTable
from dballoc.analysis.tables import level_curves

# If the collapse is its own, the baseline's share of its best is at most this much of every
# other's. In the posts it is an eighth.
_OF_OTHERS = 2 / 3


class CollapseOutcome(StrEnum):
    """What became of a collapse: ours collapses alone, with others that go on in the post, or not;
    or it was not measured under as many clients as it takes.
    """

    SEEN = "seen"
    SHARED = "shared"
    ABSENT = "absent"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, kw_only=True)
class LevelShare:
    """Throughput under ``threads`` clients, the most of a curve, ÷ that curve's best."""

    threads: int
    share: float


@dataclass(frozen=True, kw_only=True)
class VariantShares:
    """The shares of a variant; ``measured`` is None where it was not measured under enough
    clients; ``collapses``: whether ours does.
    """

    variant: str
    published: LevelShare
    measured: LevelShare | None
    collapses: bool


@dataclass(frozen=True, kw_only=True)
class CollapseHere:
    """A collapse of the post's baseline in a workload. ``needed``: the clients that it takes, as
    our levels are scaled; ``others``: the variants that go on in the post; ``blocks``: how many of
    ours the figures are means of, at least.
    """

    workload: str
    needed: int
    baseline: VariantShares
    others: tuple[VariantShares, ...]
    blocks: int

    @property
    def outcome(self) -> CollapseOutcome:
        """What became of it here."""
        if self.baseline.measured is None:
            return CollapseOutcome.NOT_MEASURED
        if not self.baseline.collapses:
            return CollapseOutcome.ABSENT
        most = self.baseline.measured.share / _OF_OTHERS
        is_shared = any(
            v.collapses or (v.measured is not None and v.measured.share < most) for v in self.others
        )
        return CollapseOutcome.SHARED if is_shared else CollapseOutcome.SEEN


def find_collapses_here(campaign: Campaign, published: Published) -> list[CollapseHere]:
    """Return every collapse of the baseline in the post's tables, in their order."""
    measured = MeasuredFigures(campaign)
    return [
        collapse
        for table in published.tables
        if table.collapse and (collapse := _find_in_table(measured, table)) is not None
    ]


@dataclass(frozen=True, kw_only=True)
class _Curve:
    """A column of the post: the level at which its throughput collapses (None: nowhere), and its
    place in our results.
    """

    published: dict[int, float]
    begins: int | None
    variant: str
    workload: str
    measure: str


def _find_in_table(measured: MeasuredFigures, table: PublishedTable) -> CollapseHere | None:
    curves = {column: _read_curve(table, column) for column in table.columns}
    baseline = curves.get(table.baseline or "")
    if baseline is None or baseline.begins is None:
        return None
    needed = measured.scale_level(baseline.begins)
    others = [curve for curve in curves.values() if curve and curve.begins is None]
    levels = measured.find_blocks_by_level(baseline.variant, baseline.measure, baseline.workload)
    return CollapseHere(
        workload=baseline.workload,
        needed=needed,
        baseline=_compare_curve(measured, baseline, needed),
        others=tuple(_compare_curve(measured, curve, needed) for curve in others),
        blocks=min((len(blocks) for blocks in levels.values()), default=0),
    )


def _read_curve(table: PublishedTable, column: str) -> _Curve | None:
    """Return a column's curve; None for one without levels, or that no variant stands for."""
    cells = [c for c in table.cells if c.column == column]
    published = {c.threads: c.value for c in cells if isinstance(c.threads, int)}
    first = cells[0]
    if not published or first.variant is None or first.workload is None:
        return None
    return _Curve(
        published=published,
        begins=level_curves.find_peak_and_collapse(published).collapse_threads,
        variant=first.variant,
        workload=first.workload,
        measure=first.measure,
    )


def _compare_curve(measured: MeasuredFigures, curve: _Curve, needed: int) -> VariantShares:
    levels = measured.find_blocks_by_level(curve.variant, curve.measure, curve.workload)
    means = {n: statistics.fmean(blocks.values()) for n, blocks in levels.items() if blocks}
    reached = bool(means) and max(means) >= needed
    return VariantShares(
        variant=curve.variant,
        published=_compute_share(curve.published),
        measured=_compute_share(means) if reached else None,
        collapses=reached and level_curves.find_collapse(means) is not None,
    )


def _compute_share(throughput: dict[int, float]) -> LevelShare:
    top = max(throughput)
    best = max(throughput.values())
    return LevelShare(threads=top, share=throughput[top] / best if best else 0.0)
