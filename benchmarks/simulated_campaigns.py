"""How often whole simulated campaigns err: with wild variants, drifts, heavy tails, looks,
extensions and the stop rule, or judged once.

    python benchmarks/simulated_campaigns.py [--short] --resume build/campaigns.jsonl

A campaign has a duet and a solo design, one workload, and judges CPU per transaction, throughput
and peak RSS. It is extended to every look that was declared, unless its designs are decided before.
An error is an interval, at any look that was taken, that does not hold the truth. Everything is in
logarithms. What decides is the project's: looks and levels are `declare_procedure`'s; moderated
variances, intervals and the stop rule are computed here for arrays, and
tests/unit/benchmarks/test_simulated_procedure.py shows that they are those of the project's
functions.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from dballoc.experiment.designs import Design
from dballoc.questions.compare.measures import list_judged
from dballoc.questions.compare.procedure import (
    CPU,
    ERROR,
    MARGIN,
    MEMORY,
    THROUGHPUT,
    Procedure,
    declare_procedure,
    declare_shares,
)
from dballoc.questions.compare.verdict import DEFAULT_MARGIN, compute_thresholds
from dballoc.questions.statistics.ratio_interval import GUARD, count_common_freedom

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

DESIGN_OF = {CPU: "duet", THROUGHPUT: "solo", MEMORY: "solo"}
BETTER = {CPU: "lower", THROUGHPUT: "higher", MEMORY: "lower"}
# The standard deviation of a start's figure, of those that shared machines have.
LUCK = {CPU: 0.008, THROUGHPUT: 0.03, MEMORY: 0.008}
# Half of the true ratios are 1, so that there is something to be wrong about.
EFFECTS = (0.0, 0.0, 0.0, 0.0, -0.03, -0.01, 0.01, 0.03)
AT_ONCE = 2000


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What campaigns are like: ``variants``, the baseline counted, of which ``wild`` scatter
    ``scale`` times as much as the others; ``host``: luck alone, a drift, or spells. ``budget``: the
    block at which the budget ends them first, 0 if it does not; ``turns``: the planned blocks of
    throughput, which is judged by turns, 0 if it belongs to the solo blocks; ``once``: whether they
    are measured only, and judged where they end.
    """

    variants: int
    wild: int
    scale: float
    host: str
    planned: int
    budget: int = 0
    turns: int = 0
    once: bool = False

    def choose_part(self, measure: str) -> str:
        """Return the part of the campaign that a measure belongs to, which ends by itself."""
        return "turns" if self.turns and measure == THROUGHPUT else DESIGN_OF[measure]


# -- what a campaign measures --------------------------------------------------------------------


def draw_drift(chance: np.random.Generator, campaigns: int, trials: int) -> Floats:
    """Return (campaign, moment): a trend of 10 %, a walk of 0.5 % a trial, two jumps of 5 %."""
    drift = np.linspace(0, 0.10, trials) + np.zeros((campaigns, trials))
    drift += chance.normal(0, 0.005, (campaigns, trials)).cumsum(axis=1)
    happens = chance.random((campaigns, trials)) < 2 / trials
    drift += (happens * chance.normal(0, 0.05, (campaigns, trials))).cumsum(axis=1)
    return drift


def draw_logs(
    chance: np.random.Generator, shape: Shape, measure: str, campaigns: int, blocks: int
) -> Floats:
    """Return (campaign, comparison, block): the logarithms of variants that do not differ, to the
    baseline; the A/A pair is the last.
    """
    others = shape.variants - 1
    scales = np.ones(others + 2)
    scales[2 : 2 + shape.wild] = shape.scale
    spells = np.ones((campaigns, blocks, 1))
    if shape.host == "spells":
        spells = np.where(chance.random(spells.shape) < 0.25, 3.0, 1.0)
    luck = chance.normal(0, LUCK[measure], (campaigns, blocks, others + 2)) * scales * spells
    if DESIGN_OF[measure] == "duet":
        partners = chance.normal(0, LUCK[measure], (campaigns, blocks, others + 2)) * spells
        pairs = luck - partners
        return np.concatenate([pairs[..., 2:], pairs[..., 1:2]], axis=-1).swapaxes(1, 2)
    if shape.host == "drift":
        size = 0.1 if measure == MEMORY else 1.0
        drift = size * draw_drift(chance, campaigns, blocks * (others + 2))
        met = drift.reshape(campaigns, blocks, others + 2)
        luck += chance.permuted(met, axis=2)
    baseline = (luck[..., 0:1] + luck[..., 1:2]) / 2
    floor = luck[..., 1:2] - luck[..., 0:1]
    return np.concatenate([luck[..., 2:] - baseline, floor], axis=-1).swapaxes(1, 2)


# -- the procedure, for arrays -------------------------------------------------------------------


def moderate(variances: Floats, own_freedom: int, error: float) -> tuple[Floats, Floats]:
    """Do what `moderate_variances` does, for (…, comparison): variances and degrees of freedom."""
    number = variances.shape[-1]
    common = count_common_freedom(number, error)
    if not common:
        return variances, np.full(variances.shape, float(own_freedom))
    total = variances.sum(axis=-1, keepdims=True)
    is_wild = variances > GUARD * (total - variances) / (number - 1)
    freedom = common + own_freedom
    mixed = np.maximum((common * total / number + own_freedom * variances) / freedom, variances)
    return np.where(is_wild, variances, mixed), np.where(is_wild, own_freedom, freedom)


def compute_intervals(
    logs: Floats, confidence: float, design: str, error: float | None
) -> tuple[Floats, Floats]:
    """Return the middle and the half-width of each comparison's interval, from (…, comparison,
    block), the A/A pair last. ``error``: what one comparison may err; None for plain variances.
    """
    blocks = logs.shape[-1]
    scales = np.ones(logs.shape[-2])
    scales[-1] = Design(design).traits.floor_to_variant
    variances = logs.var(axis=-1, ddof=1)
    freedom: Floats = np.full(variances.shape, float(blocks - 1))
    if error is not None:
        variances, freedom = moderate(variances * scales, blocks - 1, error)
        variances = variances / scales
    half = stdtrit(freedom, (1 + confidence) / 2) * np.sqrt(variances / blocks)
    return logs.mean(axis=-1), half


def find_decided(middle: Floats, half: Floats, reach: Floats, better: str) -> Flags:
    """Return where more blocks could only repeat what intervals and bounds of logarithms say: the
    verdict, whether it is no worse within the usual margin, and whether a gain that it promises is
    there. ``half``: of the interval's width; ``reach``: from the middle to each bound.
    """
    limits = compute_thresholds(better, DEFAULT_MARGIN)
    gain, tolerance, loss = (
        abs(math.log(x)) * sign
        for x, sign in ((limits.gain, -1), (limits.tolerance, 1), (limits.loss, 1))
    )
    low, high = middle - half, middle + half
    within = (low >= math.log(1 - MARGIN)) & (high <= math.log(1 + MARGIN))
    has_verdict = (low > 0) | (high < 0) | within
    # A figure that should be high is better the lower its reciprocal is.
    if better == "higher":
        middle, low, high = -middle, -high, -low
    is_shown = (high < gain) | (middle + reach < tolerance) | (low > loss)
    return has_verdict & is_shown & ((middle >= gain) | (high < gain))


def judge_looks(
    logs: Floats, effects: Floats, procedure: Procedure, measure: str
) -> tuple[Flags, Flags]:
    """Return (campaign, variant, look) each: whether the interval misses the truth, and whether the
    comparison is decided.
    """
    misses, decided = [], []
    for look in procedure.spending:
        at, share = procedure.after(look), procedure.shares[measure]
        (middle, half), (_, reach) = (
            compute_intervals(logs[..., :look], confidence, DESIGN_OF[measure], error)
            for confidence, error in (
                (at.levels[measure], share.of_each),
                (2 * at.bound_levels[measure] - 1, share.of_bound),
            )
        )
        middle, half, reach = middle[:, :-1], half[:, :-1], reach[:, :-1]
        misses.append(np.abs(middle) > half)
        decided.append(find_decided(middle + effects, half, reach, BETTER[measure]))
    return np.stack(misses, axis=-1), np.stack(decided, axis=-1)


def simulate(shape: Shape, campaigns: int, seed: int) -> dict[str, float]:
    """Return the share of campaigns that err, and for calm and wild variants of each measure the
    error of one comparison ÷ its share.
    """
    shares = declare_shares(list_judged(["solo", "duet"]), shape.variants, 1)
    budget_looks = (shape.budget,) if shape.budget else ()
    procedures = {
        part: declare_procedure(
            shape.turns if part == "turns" else shape.planned,
            shares,
            budget_looks,
            judged_once=shape.once,
        )
        for part in dict.fromkeys(map(shape.choose_part, DESIGN_OF))
    }
    chance = np.random.default_rng(seed)
    wrong_campaigns, ended_early = 0, 0
    wrong = {measure: np.zeros(shape.variants - 1) for measure in DESIGN_OF}
    for _ in range(campaigns // AT_ONCE):
        missed, decided = {}, {}
        for measure in DESIGN_OF:
            procedure = procedures[shape.choose_part(measure)]
            effects = chance.choice(EFFECTS, (AT_ONCE, shape.variants - 1))
            logs = draw_logs(chance, shape, measure, AT_ONCE, max(procedure.spending))
            missed[measure], decided[measure] = judge_looks(logs, effects, procedure, measure)
        taken = {}
        for part in procedures:
            of_part = [decided[m].all(axis=1) for m in DESIGN_OF if shape.choose_part(m) == part]
            over = np.logical_or.accumulate(np.logical_and.reduce(of_part), axis=1)
            taken[part] = np.concatenate([np.ones((AT_ONCE, 1), bool), ~over[:, :-1]], axis=1)
            ended_early += int(over[:, -1].sum())
        any_wrong = np.zeros(AT_ONCE, bool)
        for measure in DESIGN_OF:
            ever = (missed[measure] & taken[shape.choose_part(measure)][:, None]).any(axis=-1)
            wrong[measure] += ever.sum(axis=0)
            any_wrong |= ever.any(axis=1)
        wrong_campaigns += int(any_wrong.sum())
    done = campaigns // AT_ONCE * AT_ONCE
    outcome = {
        "campaign_error": wrong_campaigns / done,
        "decided": ended_early / done / len(procedures),
    }
    for measure, counts in wrong.items():
        for kind, group in (("wild", counts[: shape.wild]), ("calm", counts[shape.wild :])):
            if len(group):
                error = float(group.mean()) / done
                outcome[f"{measure}_{kind}"] = error / shares[measure].of_each
    return outcome


# -- the table -----------------------------------------------------------------------------------


def list_short_shapes() -> Iterator[Shape]:
    """Yield the shapes of the short table: those with none, one or all variants wild, by 3 and 5
    times, where what they borrow tells most.
    """
    for shape in list_shapes():
        is_one_or_all = shape.wild in (0, 1, shape.variants - 1)
        is_telling = shape.scale in (1.0, 3.0) or (shape.scale == 5.0 and shape.host == "luck")
        if shape.variants != 3 and shape.planned == 6 and is_one_or_all and is_telling:
            yield shape
            if shape.host == "luck":
                yield replace(shape, turns=12)
                yield replace(shape, once=True)


def list_shapes() -> Iterator[Shape]:
    """Yield every shape of the whole table."""
    for variants in (2, 3, 5, 10):
        others = variants - 1
        for wild in sorted({0, 1, others // 2, others - 1, others}):
            for scale in (2.0, 3.0, 5.0, 20.0) if wild else (1.0,):
                for host in ("luck", "drift", "spells"):
                    shape = Shape(variants=variants, wild=wild, scale=scale, host=host, planned=6)
                    yield shape
                    if host == "drift" and scale in (1.0, 3.0):
                        yield replace(shape, planned=18)
    # At last those with looks before the planned end, one of them the budget's.
    for shape in [s for s in list_calm_and_wildest_shapes() if s.host != "drift"]:
        yield replace(shape, planned=18)
    for shape in list_calm_and_wildest_shapes():
        yield replace(shape, planned=18, budget=13)
        yield replace(shape, once=True)
        yield replace(shape, planned=18, budget=13, once=True)


def list_calm_and_wildest_shapes() -> Iterator[Shape]:
    """Yield shapes of every host with none, one or all variants wild, by 3 and 20 times."""
    for variants in (2, 3, 5, 10):
        for wild in sorted({0, 1, variants - 1}):
            for scale in (3.0, 20.0) if wild else (1.0,):
                for host in ("luck", "drift", "spells"):
                    yield Shape(variants=variants, wild=wild, scale=scale, host=host, planned=6)


def read_finished(path: Path | None) -> dict[str, dict[str, float]]:
    """Read what an earlier run found, by the shape's JSON."""
    if path is None or not path.exists():
        return {}
    return dict(map(json.loads, path.read_text().splitlines()))


def run_shapes(
    shapes: list[Shape], campaigns: int, path: Path | None
) -> list[tuple[Shape, dict[str, float]]]:
    """Simulate every shape that is not in the file, and add it there."""
    finished = read_finished(path)
    rows = []
    for number, shape in enumerate(shapes):
        key = json.dumps([asdict(shape), campaigns])
        if key not in finished:
            finished[key] = simulate(shape, campaigns, seed=number)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a") as file:
                    file.write(json.dumps([key, finished[key]]) + "\n")
            print(f"{number + 1}: {shape}: {finished[key]}", file=sys.stderr)
        rows.append((shape, finished[key]))
    return rows


def print_table(rows: list[tuple[Shape, dict[str, float]]], campaigns: int) -> bool:
    """Print the worst of each kind of shape; return whether all promises are kept."""
    monte_carlo = math.sqrt(ERROR * (1 - ERROR) / campaigns)
    allowed = ERROR + 2 * monte_carlo
    print(f"{campaigns:,} campaigns a shape; allowed: {allowed:.2%} of campaigns\n")
    print(
        "| variants | planned | host | shapes | campaigns that err, worst | one comparison's "
        "error ÷ its share, worst: peak RSS | CPU | throughput | designs decided |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    kept = True
    groups: dict[tuple[int, int, int, int, bool, str], list[tuple[Shape, dict[str, float]]]] = {}
    for shape, outcome in rows:
        kind = (shape.variants, shape.planned, shape.budget, shape.turns, shape.once, shape.host)
        groups.setdefault(kind, []).append((shape, outcome))
    for (variants, planned, budget, turns, once, host), members in sorted(groups.items()):
        error, at = max((o["campaign_error"], i) for i, (_, o) in enumerate(members))
        worst = members[at][0]
        where = f"{worst.wild} wild × {worst.scale:g}" if worst.wild else "none wild"
        ratios = {
            measure: max(v for _, o in members for k, v in o.items() if k.startswith(measure))
            for measure in (MEMORY, CPU, THROUGHPUT)
        }
        decided = sum(o["decided"] for _, o in members) / len(members)
        kept &= error <= allowed and max(ratios.values()) <= 2
        blocks = f"{planned}, budget at {budget}" if budget else str(planned)
        blocks += f", throughput {turns} by turns" if turns else ""
        blocks += ", judged once" if once else ""
        print(f"| {variants} | {blocks} | {host} | {len(members)} | {error:.2%} ({where}) | "
              + " | ".join(f"{ratios[m]:.2f}" for m in (MEMORY, CPU, THROUGHPUT))
              + f" | {decided:.0%} |")  # fmt: skip
    print(f"\n{'kept' if kept else 'NOT KEPT'}: campaign error ≤ {allowed:.2%}, each ratio ≤ 2")
    return kept


def main() -> int:
    """Run what the command line asks for; 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--campaigns", type=int, default=20_000, help="of each shape")
    parser.add_argument("--resume", type=Path, help="a file that keeps what is finished")
    parser.add_argument("--short", action="store_true", help="the worst shapes alone")
    arguments = parser.parse_args()
    shapes = list(list_short_shapes() if arguments.short else list_shapes())
    rows = run_shapes(shapes, arguments.campaigns, arguments.resume)
    return 0 if print_table(rows, arguments.campaigns) else 1


if __name__ == "__main__":
    sys.exit(main())
