"""What a host resolves: an answer in words and tables, and the same as plain data. Pure."""

import math
from typing import Any

from dballoc.document.model import Answer, Section, Table
from dballoc.ground.numbers import NOTHING, count, duration, listing, percent
from dballoc.questions.compare.answer_words import describe_faults
from dballoc.questions.compare.baseline_comparison import Comparison
from dballoc.questions.compare.ratios_as_text import (
    describe_ratio,
    format_detectable,
    format_reach,
    show_ratio,
)
from dballoc.questions.resolution.figures import DIFFERENCES, MetricResolution, Resolution
from dballoc.questions.statistics.detectable_difference import LEVEL, Need

# An interval from half to twice is no resolution.
_ANYTHING = 1.0

LOOK_AT = (
    "look for other work on the machine (dballoc doctor; Blocks and noise in the report), CPU "
    "frequencies and temperatures that change, other guests of the same host"
)


def compose_headline(resolution: Resolution) -> str:
    """Return ``This host resolves ±2.1 % in throughput and ±0.5 % in peak RSS in 6 min``."""
    scattered = [m for m in resolution.metrics if m.scatter]
    if not scattered:
        return "This campaign does not say what this host resolves"
    resolved = [
        f"±{format_reach(m.half_width)} in {name_metric(m, resolution)}"
        for m in scattered
        if m.half_width < _ANYTHING
    ]
    resolved += [
        f"nothing yet in {name_metric(m, resolution)}"
        for m in scattered
        if m.half_width >= _ANYTHING
    ]
    several = f", with {resolution.variants} variants" if resolution.variants > 2 else ""
    seconds = resolution.promised_seconds or resolution.seconds
    return f"This host resolves {listing(resolved)} in {duration(seconds)}{several}"


def explain_headline(resolution: Resolution) -> str:
    """Return what the headline rests on, and whether it can be trusted."""
    if faults := [
        describe_faults(k_of_n, f" of {variant}") for variant, k_of_n in resolution.faulty.items()
    ]:
        return (
            f"{listing(faults).capitalize()}: the trials that survived say little about this host."
        )
    if not any(m.scatter for m in resolution.metrics):
        return (
            f"Scatter needs two blocks, but there {'is' if resolution.blocks == 1 else 'are'} "
            f"{resolution.blocks}; give it more time."
        )
    if not resolution.differing:
        return (
            f"{resolution.baseline} and {resolution.twin} are the same, and are not seen to differ."
        )
    differences = listing(
        [f"{name_metric(m, resolution)} {show_ratio(m.twin.ratio)}" for m in resolution.differing]
    )
    return (
        f"WARNING: {resolution.baseline} and {resolution.twin} are the same, and yet are seen to "
        f"differ: {differences}. Verdicts from this host cannot be trusted as it is: {LOOK_AT}. At "
        "most one campaign in twenty shows this by chance: run it again with another --seed."
    )


def name_metric(resolved: MetricResolution, resolution: Resolution) -> str:
    """Return ``throughput``, with its workload where there are several."""
    metric = resolved.metric
    several = len({m.metric.workload for m in resolution.metrics if m.metric.workload}) > 1
    where = f" in {metric.workload}" if metric.workload and several else ""
    return metric.measure.short + where


def answer_resolution(resolution: Resolution) -> Answer:
    """Return the answer in words, with a row a metric."""
    rows = [
        [
            name_metric(m, resolution), show_ratio(m.twin.ratio), str(m.blocks),
            percent(math.expm1(m.scatter.sd), 2) if m.scatter else NOTHING,
            f"±{format_reach(m.half_width)}" if m.half_width < _ANYTHING else NOTHING,
            format_detectable(m.detectable) if m.detectable < _ANYTHING else NOTHING,
        ]
        for m in resolution.metrics
    ]  # fmt: skip
    columns = ["metric", "A/A ratio", "blocks", "scatter", "interval", "detectable"]
    return Answer(
        headline=f"{compose_headline(resolution)}.",
        reason=explain_headline(resolution),
        table=Table(title="", columns=columns, rows=rows),
        notes=list_notes(resolution),
    )


def make_needs_sections(resolution: Resolution) -> list[Section]:
    """Return a table of how many blocks a resolution takes, a row a metric: ``41 blocks, 17 min``,
    and below it ``(25 to 90)``; nothing without any scatter.
    """
    columns = ["To resolve", *(f"±{percent(difference, 0)}" for difference in DIFFERENCES)]
    rows = [
        [name_metric(m, resolution), *(_format_need(n, m.block_seconds) for n in m.needs)]
        for m in resolution.metrics
        if m.scatter
    ]
    needs = Table(title="", columns=columns, rows=rows, words=columns)
    return [Section(key="needs", title="", tables=[needs])] if rows else []


def list_notes(resolution: Resolution) -> list[str]:
    """Return how to read the rest."""
    sentences = [
        "Scatter: the standard deviation of a variant's ratio from block to block. Interval: how "
        "far that of one variant reaches with as many blocks. Detectable: the difference that 80 % "
        "of such campaigns show.",
        f"In brackets: where the number of blocks lies with {percent(LEVEL, 0)} probability, as "
        "the scatter itself is estimated from a few blocks only. Blocks, minutes and intervals are "
        f"those of campaigns of {resolution.variants} variants, the baseline counted (--variants); "
        "more take more time for each block, and some more blocks.",
    ]
    if resolution.disturbed:
        sentences.append(
            f"Disturbed by other work on the machine: {resolution.disturbed} of "
            f"{count(resolution.blocks, 'block')}."
        )
    return sentences


def describe_resolution(resolution: Resolution) -> dict[str, Any]:
    """Return the resolution as plain data: shares are relative (0.01 is 1 %), times in seconds;
    null for what is not known or beyond reach.

    ``same``: whether identical variants are not seen to differ in any metric.
    """
    return {
        "baseline": resolution.baseline,
        "twin": resolution.twin,
        "same": _shows_no_difference(resolution),
        "seconds": resolution.seconds,
        "variants": resolution.variants,
        "promised_seconds": resolution.promised_seconds or resolution.seconds,
        "blocks": resolution.blocks,
        "disturbed": resolution.disturbed,
        "faults": {
            variant: {"faults": k, "trials": n} for variant, (k, n) in resolution.faulty.items()
        },
        "words": f"{compose_headline(resolution)}. {explain_headline(resolution)}",
        "metrics": [_describe_metric(m) for m in resolution.metrics],
    }


def _shows_no_difference(resolution: Resolution) -> bool | None:
    judged = [m.holds for m in resolution.metrics if m.holds is not None]
    return all(judged) if judged else None


def _describe_metric(m: MetricResolution) -> dict[str, Any]:
    low, high = m.scatter.range if m.scatter else (math.nan, math.nan)
    return {
        "key": m.metric.key,
        "title": m.metric.title,
        "unit": m.metric.measure.unit,
        "workload": m.metric.workload,
        "design": m.metric.design,
        "same": m.holds,
        "twin": _describe_ratio(m.twin),
        "floor": _describe_ratio(m.floor),
        "scatter": m.scatter.sd if m.scatter else None,
        "scatter_low": _keep_finite(low),
        "scatter_high": _keep_finite(high),
        "half_width": _keep_finite(m.half_width),
        "detectable": _keep_finite(m.detectable),
        "block_seconds": _keep_finite(m.block_seconds),
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


def _describe_ratio(c: Comparison) -> dict[str, Any] | None:
    r = c.ratio
    if r is None:
        return None
    return describe_ratio(r) | {
        "blocks": r.blocks, "confidence": r.confidence, "scatter": _keep_finite(r.scatter),
    }  # fmt: skip


def _format_need(need: Need, block_seconds: float) -> str:
    if need.blocks is None:
        return "out of reach"
    high = f"to {need.high:,}" if need.high else "or many more"
    blocks = "1 block" if need.blocks == 1 else f"{need.blocks:,} blocks"
    return (
        f"{blocks}, {duration(need.blocks * block_seconds)}\n({need.low or need.blocks:,} {high})"
    )


def _keep_finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
