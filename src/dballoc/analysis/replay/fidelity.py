"""How far replays are from the recorded process itself, where its memory was measured while it was
recorded: at the marks of the trace. Pure.
"""

from dataclasses import dataclass

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.measures import PEAK
from dballoc.analysis.replay.replay_facts import RecordedMark, ReplayFacts

# The names of what is measured at a mark: resident bytes, those of malloc's memory among them, and
# the most resident bytes since the mark before; the peak heap of a start without the recorder; and
# what is in use by malloc's own books.
RSS, HEAP, HEAP_PEAK, BOOKS = "rss", "heap", "heap_peak", "malloc_live"


@dataclass(frozen=True, kw_only=True)
class MarkFidelity:
    """The heap at a mark: ``real`` of the recorded process, ``replayed`` under the same malloc;
    ``books``: what was in use by the malloc's own books, None if it was not read; ``alive``: what
    was by the trace. In bytes.
    """

    t: float
    name: str
    real: int
    replayed: float
    books: int | None
    alive: float

    @property
    def error(self) -> float:
        """By which share the replay has more."""
        return self.replayed / self.real - 1


@dataclass(frozen=True, kw_only=True)
class Fidelity:
    """The replay under the recorded malloc, as ``variant``, beside the recorded process: peak heap,
    in bytes, and the heap at the marks. ``peak_is_estimated``: whether the real peak is the
    high-water mark of RSS less what was not heap, of a start without the recorder where there was
    one; else it is the most at any mark, on both sides.
    """

    variant: str
    real_peak: int
    replayed_peak: float
    peak_is_estimated: bool
    marks: list[MarkFidelity]

    @property
    def error(self) -> float:
        """By which share the replay's peak is higher."""
        return self.replayed_peak / self.real_peak - 1


def measure_fidelity(campaign: Campaign, facts: ReplayFacts) -> Fidelity | None:
    """Compare the replay under the recorded malloc with the recorded process. None if its memory
    was not measured, or if no variant's malloc is the recorded one.
    """
    variant = facts.recorded_variant
    measured = [
        (i, mark)
        for i, mark in enumerate(facts.marks)
        if mark.truth.get(HEAP, 0) > 0 and facts.judges(mark.t)
    ]
    if variant is None or not measured:
        return None
    averages = _average_marks(campaign, variant)
    marks = [
        MarkFidelity(
            t=m.t,
            name=m.name,
            real=m.truth[HEAP],
            replayed=averages[i][0],
            books=m.truth.get(BOOKS),
            alive=averages[i][1],
        )
        for i, m in measured
        if i in averages
    ]
    peaks = campaign.good.filter(pl.col("variant") == variant)[PEAK.trial].drop_nulls()
    if not marks or not len(peaks):
        return None
    # The high-water marks are of whole steps, and not of a stretch.
    estimate = None if facts.window else estimate_real_peak([m for _, m in measured])
    return Fidelity(
        variant=variant,
        real_peak=estimate or max(m.real for m in marks),
        replayed_peak=sum(peaks) / len(peaks) if estimate else max(m.replayed for m in marks),
        peak_is_estimated=estimate is not None,
        marks=marks,
    )


def estimate_real_peak(marks: list[RecordedMark]) -> int | None:
    """Return the process's peak heap in bytes: that of a start without the recorder, which is not
    changed by it; else the high-water mark of the recorded one's RSS, less what of RSS was not heap
    at the mark. None where neither was measured.
    """
    for mark in marks:
        if mark.truth.get(HEAP_PEAK, 0) > 0:
            return mark.truth[HEAP_PEAK]
    peaks = [
        m.truth[PEAK.name] - (m.truth[RSS] - m.truth[HEAP])
        for m in marks
        if m.truth.keys() >= {RSS, HEAP, PEAK.name}
    ]
    return max(max(peaks), *(m.truth[HEAP] for m in marks)) if peaks else None


def _average_marks(campaign: Campaign, variant: str) -> dict[int, tuple[float, float]]:
    """Return the mean heap of a variant's good trials, and what is alive, at each mark."""
    rows = campaign.of(campaign.replay_mark).filter(pl.col("variant") == variant)
    means = rows.group_by("mark").agg(pl.col("heap").mean(), pl.col("live").mean())
    return {mark: (heap, live) for mark, heap, live in means.iter_rows()}
