"""Find what became here of a collapse that a post has under many clients. Pure."""

import statistics
from dataclasses import dataclass

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions import throughput_collapse
from dballoc.analysis.published.measured_figures import MeasuredFigures
from dballoc.analysis.published.published_figures import Published, Table


@dataclass(frozen=True, kw_only=True)
class LevelShare:
    """Throughput under ``threads`` clients, the most of a curve, ÷ that curve's best."""

    threads: int
    share: float


@dataclass(frozen=True, kw_only=True)
class CollapseHere:
    """A collapse of the post's baseline in a workload. ``needed``: the clients that it takes, as
    our levels are scaled; ``measured`` is None where it was not measured here under as many;
    ``collapses``: whether ours does.
    """

    variant: str
    workload: str
    published: LevelShare
    needed: int
    measured: LevelShare | None
    collapses: bool


def find_collapses_here(campaign: Campaign, published: Published) -> list[CollapseHere]:
    """Return every collapse of the baseline in the post's tables, in their order."""
    measured = MeasuredFigures(campaign)
    return [
        collapse
        for table in published.tables
        if table.collapse and (collapse := _find_in_table(measured, table)) is not None
    ]


def _find_in_table(measured: MeasuredFigures, table: Table) -> CollapseHere | None:
    cells = [c for c in table.cells if c.column == table.baseline and isinstance(c.threads, int)]
    published = {c.threads: c.value for c in cells if isinstance(c.threads, int)}
    if not published or not cells[0].variant or not cells[0].workload:
        return None
    begins = throughput_collapse.find_peak_and_collapse(published).collapse_threads
    if begins is None:
        return None
    levels = measured.find_blocks_by_level(cells[0].variant, cells[0].measure, cells[0].workload)
    curve = {n: statistics.fmean(blocks.values()) for n, blocks in levels.items() if blocks}
    needed = measured.scale_level(begins)
    reached = bool(curve) and max(curve) >= needed
    return CollapseHere(
        variant=cells[0].variant,
        workload=cells[0].workload,
        published=_compute_share(published),
        needed=needed,
        measured=_compute_share(curve) if reached else None,
        collapses=reached and throughput_collapse.find_collapse(curve) is not None,
    )


def _compute_share(curve: dict[int, float]) -> LevelShare:
    top = max(curve)
    best = max(curve.values())
    return LevelShare(threads=top, share=curve[top] / best if best else 0.0)
