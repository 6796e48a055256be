#!/usr/bin/env python3
"""How often "Use X" is said of a variant that is truly worse than the margin.

    benchmarks/recommendation_error.py [--campaigns 20000] [--seed 1]

Simulated campaigns at the worst place: every variant is better in memory by a tenth, and in one
figure or in all of speed exactly as much worse as the margin allows, so that no "Use X" is right.
A campaign errs if "Use X" stands at any of its looks, those of every extension included, before
the stop rule has ended its designs. A row is a shape; it prints the share of campaigns that err,
with two Monte Carlo standard errors. Exit status 1 if a share is above 2.5 % by more than that.

Every block has a logarithm for each figure. What each variant is compared with in its own pair
(the duet) is its own; in all else the variants share the block's two baseline runs. Throughput
belongs to the solo blocks, or has blocks of its own, by turns. The looks, the levels, the moderated
variances, the stop rule and the recommendation are dballoc's own. To be quick, only those campaigns
are judged in full in which the figures at the margin are shown to be no worse at some look, without
which "Use X" cannot come; their bounds are computed for all campaigns at once, as
benchmarks/simulated_campaigns.py does.
"""

import argparse
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from simulated_campaigns import compute_intervals

from dballoc.experiment.designs import Design
from dballoc.questions.campaign.answer.recommendation import Ending, recommend
from dballoc.questions.campaign.answer.stopping_rule import is_design_decided
from dballoc.questions.compare import measures
from dballoc.questions.compare.baseline_comparison import Comparison, Comparisons, judge_logs
from dballoc.questions.compare.measures import Metric
from dballoc.questions.compare.procedure import (
    NO_WORSE_ERROR,
    Procedure,
    declare_procedure,
    declare_shares,
)
from dballoc.questions.compare.verdict import DEFAULT_MARGIN, compute_thresholds

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
class Part:
    """The ``metrics`` that share blocks, and end together, with ``planned`` blocks; ``budget``: the
    block at which the budget ends them first, 0 if it does not.
    """

    metrics: tuple[Metric, ...]
    planned: int = 10
    budget: int = 0


SOLO, DUET = Part(metrics=(PEAK, TPS)), Part(metrics=(CPU,))
MEMORY, TURNS = Part(metrics=(PEAK,), planned=6), Part(metrics=(TPS,), planned=12)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A kind of campaign. ``variants`` beside the baseline; its ``parts``; the metrics that are
    ``at_margin``; ``better``: by how much what is neither at the margin nor memory is better;
    ``wild``: of how many variants the scatter is ``times`` that of the others; ``common``: the
    share of a block's variance that CPU per transaction and throughput have in common; ``freedom``:
    of Student's t that the scatter is drawn from, for heavy tails; None for a normal distribution.
    """

    title: str
    variants: int = 4
    parts: tuple[Part, ...] = (SOLO, DUET)
    at_margin: tuple[Metric, ...] = (CPU,)
    better: float = 0.0
    wild: int = 0
    times: float = 1.0
    common: float = 0.0
    freedom: float | None = None

    @property
    def metrics(self) -> list[Metric]:
        """The metrics of all parts."""
        return [metric for part in self.parts for metric in part.metrics]

    def change_parts(self, **changes: Any) -> "Shape":
        """Return the shape with other fields of each part."""
        return replace(self, parts=tuple(replace(part, **changes) for part in self.parts))


BOTH = Shape(title="CPU and throughput at the margin", at_margin=(CPU, TPS))
CPU_ALONE = Shape(title="CPU alone at the margin")
TPS_ALONE = Shape(title="throughput alone at the margin", at_margin=(TPS,))
BY_TURNS = Shape(
    title="by turns, throughput at the margin", parts=(MEMORY, DUET, TURNS), at_margin=(TPS,)
)
WITHOUT_DUET = Shape(title="solo alone, throughput at the margin", parts=(SOLO,), at_margin=(TPS,))


def list_shapes() -> list[Shape]:
    """Return every shape of the table."""
    forty = CPU_ALONE.change_parts(planned=40)
    return [
        BOTH,
        replace(BOTH, title="the same, correlated (0.9)", common=0.9),
        CPU_ALONE,
        replace(CPU_ALONE, title="the same, throughput better by 10 %", better=0.1),
        TPS_ALONE,
        replace(TPS_ALONE, title="the same, CPU better by 10 %", better=0.1),
        BY_TURNS,
        replace(BY_TURNS, title="by turns, one variant", variants=1),
        replace(BY_TURNS, title="by turns, ten variants", variants=10),
        replace(BY_TURNS, title="by turns, one of four at 3 × the scatter", wild=1, times=3.0),
        replace(BY_TURNS, title="by turns, three of four at 5 × the scatter", wild=3, times=5.0),
        replace(
            BY_TURNS,
            title="by turns, CPU and throughput at the margin, correlated (0.9)",
            at_margin=(CPU, TPS),
            common=0.9,
        ),
        replace(CPU_ALONE, title="one variant, CPU at the margin", variants=1),
        replace(CPU_ALONE, title="ten variants, CPU at the margin", variants=10),
        replace(CPU_ALONE.change_parts(planned=6), title="6 blocks"),
        replace(forty, title="40 blocks, looks at 6, 10, 20 and 40"),
        replace(forty.change_parts(budget=13), title="40 blocks, the budget at 13"),
        replace(CPU_ALONE, title="one of four variants at 3 × the scatter", wild=1, times=3.0),
        replace(CPU_ALONE, title="one of four variants at 20 × the scatter", wild=1, times=20.0),
        replace(CPU_ALONE, title="three of four at 5 × the scatter", wild=3, times=5.0),
        replace(CPU_ALONE, title="heavy tails (Student's t, 3)", freedom=3.0),
        WITHOUT_DUET,
        replace(WITHOUT_DUET, title="solo alone, one variant", variants=1),
        replace(
            WITHOUT_DUET.change_parts(planned=6),
            title="solo alone, one variant, 6 blocks",
            variants=1,
        ),
    ]


def main() -> int:
    """Print a row a shape."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(f'| {arguments.campaigns:,} campaigns a shape | wrong "Use X" |')
    print("| --- | ---: |")
    failed = False
    for shape in list_shapes():
        errors = count_errors(shape, arguments.campaigns, np.random.default_rng(arguments.seed))
        share = errors / arguments.campaigns
        two_errors = 2 * math.sqrt(max(share, 1 / arguments.campaigns) / arguments.campaigns)
        failed |= share > NO_WORSE_ERROR + two_errors
        print(f"| {shape.title} | {share * 100:.2f} % ± {two_errors * 100:.2f} % |", flush=True)
    return int(failed)


def count_errors(shape: Shape, campaigns: int, chance: np.random.Generator) -> int:
    """Return the number of campaigns in which "Use X" stands at a look."""
    judged = {m.measure.name for m in shape.metrics}
    shares = declare_shares(judged, shape.variants + 1, 1)
    procedures = {
        part: declare_procedure(part.planned, shares, (part.budget,) if part.budget else ())
        for part in shape.parts
    }
    errors = 0
    for begin in range(0, campaigns, BATCH):
        logs = draw_logs(shape, procedures, min(BATCH, campaigns - begin), chance)
        suspects = find_suspects(shape, logs, procedures)
        errors += sum(
            is_use_said({m: logs[m][i] for m in shape.metrics}, procedures)
            for i in np.flatnonzero(suspects)
        )
    return errors


def draw_logs(
    shape: Shape,
    procedures: Mapping[Part, Procedure],
    campaigns: int,
    chance: np.random.Generator,
) -> dict[Metric, Floats]:
    """Return ln(variant ÷ baseline) as (campaign, variant, block) for each metric; the A/A pair is
    the last of the variants.
    """
    scale = np.ones(shape.variants)
    scale[: shape.wild] = shape.times
    most = max(max(procedure.spending) for procedure in procedures.values())

    def draw(rows: int, blocks: int) -> Floats:
        size = (campaigns, rows, blocks)
        if shape.freedom is None:
            return chance.standard_normal(size)
        return chance.standard_t(shape.freedom, size)

    shared = draw(shape.variants, most) if shape.common else np.zeros((1, 1, most))
    logs = {}
    for part, procedure in procedures.items():
        blocks = max(procedure.spending)
        for metric in part.metrics:
            sign = 1 if metric.better == "lower" else -1
            truth = -sign * shape.better
            if metric in shape.at_margin:
                truth = AT_MARGIN[metric]
            elif metric is PEAK:
                truth = math.log(0.9)
            own = draw(shape.variants, blocks) * math.sqrt(1 - shape.common)
            noise = own + sign * math.sqrt(shape.common) * shared[..., :blocks]
            noise, pair = noise * scale[:, None], draw(1, blocks)
            if not metric.design.is_paired:
                runs = draw(2, blocks)
                noise = noise - runs.mean(axis=1, keepdims=True)
                pair = runs[:, 1:] - runs[:, :1]
            quiet = SCATTER[metric] * (1.0 if metric in shape.at_margin else QUIET)
            logs[metric] = np.concatenate([truth + quiet * noise, quiet * pair], axis=1)
    return logs


def find_suspects(
    shape: Shape, logs: Mapping[Metric, Floats], procedures: Mapping[Part, Procedure]
) -> NDArray[np.bool_]:
    """Return in which campaigns a variant is shown to be no worse, at some look, in all figures
    that are at the margin. The parts may have ended at different looks.
    """
    suspects = np.ones((len(logs[shape.metrics[0]]), shape.variants), dtype=bool)
    for part, procedure in procedures.items():
        for metric in set(part.metrics) & set(shape.at_margin):
            tolerance = math.log(compute_thresholds(metric.better, DEFAULT_MARGIN).tolerance)
            share = procedure.shares[metric.measure.name]
            passed = np.zeros_like(suspects)
            for look in procedure.spending:
                at = procedure.after(look)
                level, bound = (x[metric.measure.name] for x in (at.levels, at.bound_levels))
                for confidence, error in ((level, share.of_each), (2 * bound - 1, share.of_bound)):
                    mean, half = compute_intervals(
                        logs[metric][..., :look], confidence, metric.design, error
                    )
                    # A hair wider than the interval itself, for rounding.
                    if metric.better == "lower":
                        passed |= (mean + half < tolerance + 1e-9)[:, :-1]
                    else:
                        passed |= (mean - half > tolerance - 1e-9)[:, :-1]
            suspects &= passed
    # Over an axis it is an array; numpy's types allow a single truth too.
    return np.asarray(suspects.any(axis=1))


def is_use_said(logs: Mapping[Metric, Floats], procedures: Mapping[Part, Procedure]) -> bool:
    """Whether a campaign says "Use X" at a look. ``logs``: (variant, block) for each metric, the
    A/A pair last. A part that is decided ends, and its figures stay what they were.
    """
    ended: dict[Part, int] = {}
    for number in range(max(len(p.spending) for p in procedures.values())):
        blocks = {
            part: ended.get(part, list(p.spending)[: number + 1][-1])
            for part, p in procedures.items()
        }
        compared = {
            part: compare(logs, part, p.after(blocks[part])) for part, p in procedures.items()
        }
        if recommend(join(list(compared.values())), BASELINE).ending is Ending.USE:
            return True
        for part, comparisons in compared.items():
            if is_design_decided(comparisons, part.metrics[0].design, margin=DEFAULT_MARGIN):
                ended.setdefault(part, blocks[part])
        if len(ended) == len(procedures):
            return False
    return False


def compare(logs: Mapping[Metric, Floats], part: Part, procedure: Procedure) -> Comparisons:
    """Return the comparisons of a part of a campaign after the procedure's blocks."""
    family = []
    for metric in part.metrics:
        rows = [list(map(float, row)) for row in logs[metric][:, : procedure.blocks]]
        names = [*(f"v{i}" for i in range(len(rows) - 1)), BASELINE]
        ratios = judge_logs(dict(zip(names, rows, strict=True)), metric, procedure, BASELINE)
        family += [Comparison(name, metric, ratios[name]) for name in names[:-1]]
    return Comparisons(
        procedures={part.metrics[0].design: procedure},
        metrics=list(part.metrics),
        family=family,
        floor=[],
        faulty={},
    )


def join(parts: list[Comparisons]) -> Comparisons:
    """Return the comparisons of a whole campaign."""
    return replace(
        parts[0],
        metrics=[metric for part in parts for metric in part.metrics],
        family=[comparison for part in parts for comparison in part.family],
    )


if __name__ == "__main__":
    sys.exit(main())
