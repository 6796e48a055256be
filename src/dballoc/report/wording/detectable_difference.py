"""What a host resolves, in words, as a table's rows and as JSON. Pure."""

import math
from typing import Any

from dballoc.analysis.decisions.aa_check import DIFFERENCES, Resolution, Resolved
from dballoc.analysis.statistics.detectable_difference import LEVEL, Need
from dballoc.analysis.tables.baseline_comparison import Comparison
from dballoc.report.wording.answer import fault_words, ratio_words
from dballoc.report.wording.ratios_as_text import (
    NOTHING,
    count,
    detectable,
    duration,
    listing,
    percent,
)

# An interval from half to twice is no resolution.
_ANYTHING = 1.0

LOOK_AT = (
    "look for other work on the machine (dballoc doctor; Blocks and noise in the report), CPU "
    "frequencies and temperatures "
    "that change, other guests of the same host"
)


def headline(found: Resolution) -> str:
    """``This host resolves ±2.1 % in throughput and ±0.5 % in peak RSS in 6 min``."""
    known = [m for m in found.metrics if m.scatter]
    if not known:
        return "This campaign does not say what this host resolves"
    told = [
        f"±{detectable(m.half_width)} in {name(m, found)}"
        for m in known
        if m.half_width < _ANYTHING
    ]
    told += [f"nothing yet in {name(m, found)}" for m in known if m.half_width >= _ANYTHING]
    return f"This host resolves {listing(told)} in {duration(found.seconds)}"


def reason(found: Resolution) -> str:
    """What the headline rests on, and whether it can be trusted."""
    if faults := [fault_words(k_of_n, f" of {who}") for who, k_of_n in found.faulty.items()]:
        return f"{listing(faults).capitalize()}: what survived says little of this host."
    if not any(m.scatter for m in found.metrics):
        return (
            f"Scatter takes two blocks, and there {'is' if found.blocks == 1 else 'are'} "
            f"{found.blocks}; give it more time."
        )
    if not found.differing:
        return f"{found.baseline} and {found.twin} are the same, and are not seen to differ."
    seen = listing([f"{name(m, found)} {ratio_words(m.twin)}" for m in found.differing])
    return (
        f"WARNING: {found.baseline} and {found.twin} are the same, and yet are seen to differ: "
        f"{seen}. Verdicts from this host "
        f"cannot be trusted as it is: {LOOK_AT}. One campaign in twenty shows this by chance at "
        "most: run it again with "
        "another --seed."
    )


def name(resolved: Resolved, found: Resolution) -> str:
    """``throughput``, with its workload where there are several."""
    metric = resolved.metric
    what = {
        "tps": "throughput",
        "cpu": "CPU per transaction",
        "rss_peak": "peak RSS",
        "rss_idle": "idle RSS",
    }
    several = len({m.metric.workload for m in found.metrics if m.metric.workload}) > 1
    where = f" in {metric.workload}" if metric.workload and several else ""
    return what.get(metric.key.partition(":")[0], metric.title) + where


COLUMNS = ("", "A/A ratio", "blocks", "scatter", "interval", "detectable")


def rows(found: Resolution) -> list[tuple[str, ...]]:
    """One a metric, under :data:`COLUMNS`."""
    return [
        (
            name(m, found), ratio_words(m.twin), str(m.blocks),
            percent(math.expm1(m.scatter.sd), 2) if m.scatter else NOTHING,
            f"±{detectable(m.half_width)}" if m.half_width < _ANYTHING else NOTHING,
            detectable(m.detectable) if m.detectable < _ANYTHING else NOTHING,
        )
        for m in found.metrics
    ]  # fmt: skip


NEED_COLUMNS = ("To resolve", *(f"±{percent(difference, 0)}" for difference in DIFFERENCES))


def needs(found: Resolution) -> list[tuple[str, ...]]:
    """One a metric, under :data:`NEED_COLUMNS`: ``41 blocks, 17 min``, and below it ``(25
    to 90)``.
    """
    return [
        (name(m, found), *(_need(n, m.block_seconds) for n in m.needs))
        for m in found.metrics
        if m.scatter
    ]


def notes(found: Resolution) -> list[str]:
    """How to read the rest."""
    said = [
        "Scatter: the standard deviation of a variant's ratio from block to block. Interval: how "
        "far that of one variant "
        "reaches with as many blocks. Detectable: the difference that 80 % of such campaigns show.",
        f"In brackets: where the number of blocks lies with {percent(LEVEL, 0)} probability, as "
        "scatter is itself known from a "
        "few blocks only. More variants take more time for each block, and some more blocks.",
    ]
    if found.disturbed:
        said.append(
            f"Disturbed by other work on the machine: {found.disturbed} of "
            f"{count(found.blocks, 'block')}."
        )
    return said


def as_json(found: Resolution) -> dict[str, Any]:
    """For machines: shares are relative (0.01 is 1 %), times seconds; null for what is not known or
    beyond reach.

    ``same``: whether identical variants are not seen to differ in any metric.
    """
    return {
        "baseline": found.baseline,
        "twin": found.twin,
        "same": _same(found),
        "seconds": found.seconds,
        "blocks": found.blocks,
        "disturbed": found.disturbed,
        "faults": {who: {"faults": k, "trials": n} for who, (k, n) in found.faulty.items()},
        "words": f"{headline(found)}. {reason(found)}",
        "metrics": [_metric_json(m) for m in found.metrics],
    }


def _same(found: Resolution) -> bool | None:
    known = [m.holds for m in found.metrics if m.holds is not None]
    return all(known) if known else None


def _metric_json(m: Resolved) -> dict[str, Any]:
    low, high = m.scatter.range if m.scatter else (math.nan, math.nan)
    return {
        "key": m.metric.key,
        "title": m.metric.title,
        "unit": m.metric.unit,
        "workload": m.metric.workload,
        "design": m.metric.design,
        "same": m.holds,
        "twin": _ratio_json(m.twin),
        "floor": _ratio_json(m.floor),
        "scatter": m.scatter.sd if m.scatter else None,
        "scatter_low": _finite(low),
        "scatter_high": _finite(high),
        "half_width": _finite(m.half_width),
        "detectable": _finite(m.detectable),
        "block_seconds": _finite(m.block_seconds),
        "resolve": [
            {
                "difference": n.difference,
                "blocks": n.blocks,
                "blocks_low": n.low,
                "blocks_high": n.high,
                "seconds": n.blocks * m.block_seconds if n.blocks else None,
            }
            for n in m.needs
        ],
    }


def _ratio_json(c: Comparison) -> dict[str, Any] | None:
    r = c.ratio
    if r is None:
        return None
    return {
        "ratio": r.estimate,
        "low": r.low,
        "high": _finite(r.high),
        "blocks": r.blocks,
        "confidence": r.confidence,
        "scatter": _finite(r.scatter),
    }


def _need(need: Need, block_seconds: float) -> str:
    if need.blocks is None:
        return "out of reach"
    high = f"to {need.high:,}" if need.high else "or many more"
    blocks = "1 block" if need.blocks == 1 else f"{need.blocks:,} blocks"
    return (
        f"{blocks}, {duration(need.blocks * block_seconds)}\n({need.low or need.blocks:,} {high})"
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
