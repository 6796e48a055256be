#!/usr/bin/env python3
"""How often "Use X" is said of a variant that is truly worse than the margin.

    benchmarks/recommendation_error.py [--campaigns 20000] [--seed 1]

Simulated campaigns at the worst place: every variant is better in memory by a tenth, and in one
figure or in all of speed exactly as much worse as the margin allows, so that no "Use X" is right.
A campaign errs if "Use X" stands at any of its looks, those of every extension included, before
the stop rule has ended its designs. A row is a shape; it prints the share of campaigns that err,
with two Monte Carlo standard errors. Exit status 1 if a share is above 2.5 % by more than that.

Every block has a logarithm for each figure; solo's variants share the block's two baseline runs.
The looks, the levels, the moderated variances, the stop rule and the recommendation are dballoc's
own. To be quick, only those campaigns are judged in full in which the figures at the margin are
shown to be no worse at some look, without which "Use X" cannot come; their intervals are computed
for all campaigns at once, as benchmarks/simulated_campaigns.py does.
"""

import argparse
import math
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from simulated_campaigns import compute_intervals

from dballoc.experiment.designs import Design
from dballoc.questions.campaign.answer.recommendation import Ending, recommend
from dballoc.questions.campaign.answer.stopping_rule import is_design_decided
from dballoc.questions.compare import measures
from dballoc.questions.compare.baseline_comparison import Comparison, Comparisons
from dballoc.questions.compare.measures import Metric, list_judged
from dballoc.questions.compare.procedure import Procedure, declare_procedure, declare_shares
from dballoc.questions.compare.verdict import DEFAULT_MARGIN, compute_thresholds
from dballoc.questions.statistics.ratio_interval import (
    Variance,
    compute_ratio,
    compute_variance,
    moderate_variances,
)

PROMISED = 0.025
BATCH = 2000
BASELINE = "baseline"

PEAK = Metric(measure=measures.PEAK)
CPU = Metric(measure=measures.CPU, workload="w", design=Design.DUET)
TPS = Metric(measure=measures.THROUGHPUT, workload="w")
# The scatter of a server start's logarithm.
SCATTER = {PEAK: 0.01, CPU: 0.015, TPS: 0.04}
# What is not at the margin scatters this much less, so that nothing else holds "Use X" back.
QUIET = 0.05
AT_MARGIN = {CPU: math.log(1 + DEFAULT_MARGIN), TPS: math.log(1 - DEFAULT_MARGIN)}

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A kind of campaign. ``variants`` beside the baseline; ``metrics`` compared and those of them
    that are ``at_margin``; ``planned`` blocks; ``wild``: of how many variants the scatter is
    ``times`` that of the others; ``freedom``: of Student's t that the scatter is drawn from, for
    heavy tails; None for a normal distribution.
    """

    title: str
    variants: int = 4
    metrics: tuple[Metric, ...] = (PEAK, CPU, TPS)
    at_margin: tuple[Metric, ...] = (CPU, TPS)
    planned: int = 10
    wild: int = 0
    times: float = 1.0
    freedom: float | None = None


SHAPES = (
    Shape(title="CPU and throughput at the margin"),
    Shape(title="CPU alone at the margin", at_margin=(CPU,)),
    Shape(title="throughput alone at the margin", at_margin=(TPS,)),
    Shape(title="one variant, CPU alone at the margin", variants=1, at_margin=(CPU,)),
    Shape(title="nine variants, CPU alone at the margin", variants=9, at_margin=(CPU,)),
    Shape(title="6 blocks, CPU alone at the margin", planned=6, at_margin=(CPU,)),
    Shape(title="40 blocks, four looks, CPU alone at the margin", planned=40, at_margin=(CPU,)),
    Shape(title="one of four variants at 3 × the scatter", wild=1, times=3, at_margin=(CPU,)),
    Shape(title="one of four variants at 20 × the scatter", wild=1, times=20, at_margin=(CPU,)),
    Shape(title="three of four at 5 × the scatter", wild=3, times=5, at_margin=(CPU,)),
    Shape(title="heavy tails (Student's t, 3)", freedom=3.0, at_margin=(CPU,)),
    Shape(title="solo alone, throughput at the margin", metrics=(PEAK, TPS), at_margin=(TPS,)),
    Shape(
        title="solo alone, one variant, throughput at the margin",
        variants=1, metrics=(PEAK, TPS), at_margin=(TPS,),
    ),
)  # fmt: skip


def main() -> int:
    """Print a row a shape."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(f'| {arguments.campaigns:,} campaigns a shape | wrong "Use X" |')
    print("| --- | ---: |")
    failed = False
    for shape in SHAPES:
        errors = count_errors(shape, arguments.campaigns, np.random.default_rng(arguments.seed))
        share = errors / arguments.campaigns
        two_errors = 2 * math.sqrt(max(share, 1 / arguments.campaigns) / arguments.campaigns)
        failed |= share > PROMISED + two_errors
        print(f"| {shape.title} | {share:.2%} ± {two_errors:.2%} |", flush=True)
    return int(failed)


def count_errors(shape: Shape, campaigns: int, chance: np.random.Generator) -> int:
    """Return the number of campaigns in which "Use X" stands at a look."""
    designs = sorted({m.design for m in shape.metrics})
    procedure = declare_procedure(
        shape.planned, declare_shares(list_judged(designs), shape.variants + 1, 1)
    )
    errors = 0
    for begin in range(0, campaigns, BATCH):
        logs = draw_logs(shape, procedure, min(BATCH, campaigns - begin), chance)
        suspects = find_suspects(shape, logs, procedure)
        errors += sum(
            is_use_said(shape, {m: logs[m][i] for m in shape.metrics}, procedure)
            for i in np.flatnonzero(suspects)
        )
    return errors


def draw_logs(
    shape: Shape, procedure: Procedure, campaigns: int, chance: np.random.Generator
) -> dict[Metric, Floats]:
    """Return ln(variant ÷ baseline) as (campaign, variant, block) for each metric; the A/A pair is
    the last of the variants.
    """
    scale = np.ones(shape.variants)
    scale[: shape.wild] = shape.times
    blocks = max(procedure.spending)

    def draw(rows: int) -> Floats:
        size = (campaigns, rows, blocks)
        if shape.freedom is None:
            return chance.standard_normal(size)
        return chance.standard_t(shape.freedom, size)

    logs = {}
    for metric in shape.metrics:
        truth = AT_MARGIN[metric] if metric in shape.at_margin else 0.0
        truth = math.log(0.9) if metric is PEAK else truth
        noise, pair = draw(shape.variants) * scale[:, None], draw(1)
        if metric.design == "solo":
            runs = draw(2)
            noise = noise - runs.mean(axis=1, keepdims=True)
            pair = runs[:, 1:] - runs[:, :1]
        quiet = SCATTER[metric] * (1.0 if metric in shape.at_margin else QUIET)
        logs[metric] = np.concatenate([truth + quiet * noise, quiet * pair], axis=1)
    return logs


def find_suspects(
    shape: Shape, logs: dict[Metric, Floats], procedure: Procedure
) -> NDArray[np.bool_]:
    """Return in which campaigns a variant is shown to be no worse, at some look, in all figures
    that are at the margin. The designs may have ended at different looks.
    """
    suspects = np.ones((len(logs[shape.metrics[0]]), shape.variants), dtype=bool)
    for metric in shape.at_margin:
        bound = math.log(compute_thresholds(metric.better, DEFAULT_MARGIN).tolerance)
        passed = np.zeros_like(suspects)
        for look in procedure.spending:
            confidence = procedure.after(look).levels[metric.measure.name]
            error = procedure.shares[metric.measure.name].of_each
            mean, half = compute_intervals(
                logs[metric][..., :look], confidence, metric.design, error
            )
            # A hair wider than the interval itself, for rounding.
            if metric.better == "lower":
                passed |= (mean + half < bound + 1e-9)[:, :-1]
            else:
                passed |= (mean - half > bound - 1e-9)[:, :-1]
        suspects &= passed
    # Over an axis it is an array; numpy's types allow a single truth too.
    return np.asarray(suspects.any(axis=1))


def is_use_said(shape: Shape, logs: dict[Metric, Floats], procedure: Procedure) -> bool:
    """Whether a campaign says "Use X" at a look. ``logs``: (variant, block) for each metric, the
    A/A pair last. A design that is decided ends, and its figures stay what they were.
    """
    designs = {m.design for m in shape.metrics}
    ended: dict[Design, int] = {}
    for look in procedure.spending:
        blocks = {design: ended.get(design, look) for design in designs}
        comparisons = compare(shape, logs, procedure, blocks)
        if recommend(comparisons, BASELINE).ending is Ending.USE:
            return True
        for design in designs:
            if is_design_decided(comparisons, design, margin=DEFAULT_MARGIN):
                ended.setdefault(design, look)
        if len(ended) == len(designs):
            return False
    return False


def compare(
    shape: Shape, logs: dict[Metric, Floats], procedure: Procedure, blocks: dict[Design, int]
) -> Comparisons:
    """Return the comparisons of a campaign after so many blocks of each design."""
    family = []
    for metric in shape.metrics:
        number = blocks[metric.design]
        confidence = procedure.after(number).levels[metric.measure.name]
        rows = [list(map(float, row)) for row in logs[metric][:, :number]]
        pair = len(rows) - 1
        to_variant = metric.design.traits.floor_to_variant
        variances = {i: compute_variance(row) for i, row in enumerate(rows)}
        variances[pair] = Variance(variances[pair].value * to_variant, variances[pair].freedom)
        moderated = moderate_variances(variances, procedure.shares[metric.measure.name].of_each)
        family += [
            Comparison(f"v{i}", metric, compute_ratio(rows[i], confidence, moderated[i]))
            for i in range(pair)
        ]
    return Comparisons(
        procedures={design: procedure.after(number) for design, number in blocks.items()},
        metrics=list(shape.metrics),
        family=family,
        floor=[],
        faulty={},
    )


if __name__ == "__main__":
    sys.exit(main())
