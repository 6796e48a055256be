"""Simulated campaigns: a host that drifts, jumps and has moods, met by the project's own schedule
and judged by its own procedure. Thousands at a time, in numpy.

What decides is the project's: `schedule.block` gives every trial its moment, `declare` the looks
and the confidence. Ratios, intervals and verdicts are computed here a second time, for arrays;
test_simulated_campaigns.py shows that `really_judged`, which calls the project's functions one
campaign at a time, finds the same.

Everything is in logarithms: 0.02 is 2 %.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from example_ratios import make_metric
from numpy.typing import NDArray
from scipy.special import stdtrit

from dballoc.experiment import schedule
from dballoc.experiment.model import Experiment
from dballoc.questions.campaign.answer.recommendation import Ending, recommend
from dballoc.questions.campaign.answer.stopping_rule import all_decided
from dballoc.questions.compare.baseline_comparison import Comparison, Comparisons
from dballoc.questions.compare.procedure import (
    END_SHARE,
    ERROR,
    MARGIN,
    ErrorShare,
    Procedure,
    declare_procedure,
)
from dballoc.questions.compare.values import Values
from dballoc.questions.compare.verdict import DEFAULT_MARGIN
from dballoc.questions.statistics.duet_estimates import Estimate
from dballoc.questions.statistics.ratio_interval import compute_bounds, compute_ratio

Floats = NDArray[np.float64]
Times = NDArray[np.int64]

BASELINE = "glibc"


def list_logs(places: Mapping[tuple[int, str], float], of: str = "V") -> list[float]:
    """Return one ln ratio a block as the project takes it, from values by block and role."""
    logs: dict[str, dict[tuple[int, str], float]] = {"V": {}, BASELINE: {}}
    for place, value in places.items():
        logs["V" if place[1] == "V" else BASELINE][place] = math.log(value)
    return Values(logs=logs, baseline=BASELINE, roles=("A1", "A2")).list_ratios(of, BASELINE)


TPS, PEAK, IDLE = map(make_metric, ("tps:w", "rss_peak", "rss_idle"))
METRICS = (TPS, PEAK, IDLE)


@dataclass(frozen=True, kw_only=True)
class Host:
    """How one metric's logarithm varies.

    ``luck``: SD from server start to server start. ``trend``: change over the whole campaign, along
    a straight line. ``walk``: SD of a random walk's step from trial to trial. ``steps``: expected
    number of sudden changes in the campaign, each of SD ``step`` and for good. ``spells``: share of
    blocks in which luck is three times as large. ``unlike``: what luck is multiplied by, for A1, A2
    and each variant.
    """

    luck: float = 0.02
    trend: float = 0.0
    walk: float = 0.0
    steps: float = 0.0
    step: float = 0.05
    spells: float = 0.0
    unlike: tuple[float, ...] = ()

    def drift(self, chance: np.random.Generator, campaigns: int, trials: int) -> Floats:
        """(campaign, moment): what the host does to whoever runs at that moment."""
        found = np.linspace(0, self.trend, trials) + np.zeros((campaigns, trials))
        if self.walk:
            found += chance.normal(0, self.walk, (campaigns, trials)).cumsum(axis=1)
        if self.steps:
            happens = chance.random((campaigns, trials)) < self.steps / trials
            found += (happens * chance.normal(0, self.step, (campaigns, trials))).cumsum(axis=1)
        return found

    def values(self, chance: np.random.Generator, times: Times) -> Floats:
        """(campaign, member, block) of a baseline and variants that do not differ; ``times``:
        (campaign, block, member).
        """
        campaigns, blocks, members = times.shape
        drift = self.drift(chance, campaigns, blocks * members)
        met = np.take_along_axis(drift, times.reshape(campaigns, -1), axis=1).reshape(times.shape)
        luck = chance.normal(0, self.luck, times.shape)
        if self.spells:
            luck *= np.where(chance.random((campaigns, blocks, 1)) < self.spells, 3.0, 1.0)
        if self.unlike:
            luck *= np.array(self.unlike)
        return (met + luck).transpose(0, 2, 1)


def declare_even(blocks: int, comparisons: int, variants: int | None = None) -> Procedure:
    """A procedure whose comparisons share evenly the error that all looks up to the planned end
    have; of so many ``variants``, or each of one of its own.
    """
    share = ErrorShare(
        error=ERROR / END_SHARE, comparisons=comparisons, variants=variants or comparisons
    )
    return declare_procedure(blocks, {"any": share})


def procedure_of(model: Experiment, blocks: int) -> Procedure:
    """That of a solo campaign of that many blocks, for throughput, peak and idle RSS."""
    variants = len(model.variant) - 1
    return declare_even(blocks, variants * (len(model.workloads) + 2), variants)


# Memory scatters by 0.6–0.9 % and hardly drifts.
MEMORY = Host(luck=0.008, walk=0.0005)


def experiment(variants: int, workloads: int = 1) -> Experiment:
    """With that many variants beside the baseline: v1, v2, …"""
    names = [BASELINE, *(f"v{i}" for i in range(1, variants + 1))]
    return Experiment.model_validate(
        {
            "baseline": BASELINE,
            "workloads": [f"w{i}" for i in range(workloads)],
            "threads": [4],
            "variant": [{"name": n} for n in names],
        }
    )


# -- when each trial runs ------------------------------------------------------------------------------------------------


def drawn(model: Experiment, blocks: int) -> list[list[int]]:
    """By block, the moments of A1, A2 and each variant: the project's schedule."""
    found = []
    for number in range(1, blocks + 1):
        slots = schedule.order_block(model, number)
        moments = {(s.variant, s.role): (number - 1) * len(slots) + s.position - 1 for s in slots}
        others = [moments[v.name, "V"] for v in model.variant if v.name != model.baseline]
        found.append([moments[model.baseline, "A1"], moments[model.baseline, "A2"], *others])
    return found


def one_after_another(model: Experiment, blocks: int) -> list[list[int]]:
    """What the project does not do: all of the baseline, then all of the first variant, …"""
    members = len(model.variant) + 1
    return [[member * blocks + block for member in range(members)] for block in range(blocks)]


def same_order(model: Experiment, blocks: int) -> list[list[int]]:
    """What the project does not do either: blocks, but each in the file's order."""
    members = len(model.variant) + 1
    return [[block * members + member for member in range(members)] for block in range(blocks)]


def times(
    model: Experiment,
    campaigns: int,
    blocks: int,
    order: Callable[[Experiment, int], list[list[int]]] = drawn,
) -> Times:
    """(campaign, block, member): every campaign has a seed of its own, 1, 2, …"""
    seeds = (model.model_copy(update={"seed": seed}) for seed in range(1, campaigns + 1))
    return np.array([order(one, blocks) for one in seeds], dtype=np.int64)


# -- ratios and intervals ------------------------------------------------------------------------------------------------


def logs(values: Floats) -> Floats:
    """`logs_to_baseline` for arrays: from (…, member, block) to (…, variant, block)."""
    return values[..., 2:, :] - (values[..., 0:1, :] + values[..., 1:2, :]) / 2


def logs_of_floor(values: Floats) -> Floats:
    """`logs_between_baselines` for arrays: from (…, member, block) to (…, block)."""
    return values[..., 1, :] - values[..., 0, :]


def intervals(found: Floats, confidence: float) -> tuple[Floats, Floats, Floats]:
    """`ratio` for arrays: estimate, low and high of the last axis."""
    n = found.shape[-1]
    mean = found.mean(axis=-1)
    half = float(stdtrit(n - 1, (1 + confidence) / 2)) * found.std(axis=-1, ddof=1) / math.sqrt(n)
    return np.exp(mean), np.exp(mean - half), np.exp(mean + half)


# -- the procedure -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Judged:
    """(campaign, look, variant, metric) each; ``least`` and ``most``: the one-sided bounds;
    ``looked``: (campaign, look), False after the campaign has stopped. ``effects``: (variant, metric), the truth as a logarithm.
    """

    estimate: Floats
    low: Floats
    high: Floats
    least: Floats
    most: Floats
    looked: NDArray[np.bool_]
    effects: Floats

    @property
    def last(self) -> NDArray[np.int64]:
        """The look at which each campaign stopped."""
        return self.looked.sum(axis=1) - 1

    @property
    def coverage(self) -> float:
        """The share of campaigns in which every interval, at every look, holds the truth."""
        truth = np.exp(self.effects)
        held = (self.low <= truth) & (truth <= self.high) | ~self.looked[..., None, None]
        return float(held.all(axis=(1, 2, 3)).mean())

    @property
    def false_differences(self) -> float:
        """The share of campaigns that call anything higher or lower, at any look, that is not."""
        false = (self.low > 1) & (self.effects <= 0) | (self.high < 1) & (self.effects >= 0)
        return float((false & self.looked[..., None, None]).any(axis=(1, 2, 3)).mean())

    @property
    def used(self) -> NDArray[np.bool_]:
        """(campaign, variant): whether "Use X" could be said at the end of each campaign, `recommend`
        for arrays: better in speed or in memory, and no worse in the other.
        """
        at = np.arange(len(self.looked)), self.last
        low, high, least, most = (x[at] for x in (self.low, self.high, self.least, self.most))
        faster, smaller = low[..., 0] > 1 + MARGIN, high[..., 1] < 1 - MARGIN
        as_fast, as_small = least[..., 0] > 1 - DEFAULT_MARGIN, most[..., 1] < 1 + DEFAULT_MARGIN
        return (faster & (as_small | smaller)) | (smaller & (as_fast | faster))

    @property
    def false_recommendations(self) -> float:
        """The share of campaigns that may say "Use X" of a variant that is better by 1 % in nothing,
        or worse than the margin in something.
        """
        speed, memory = self.effects[:, 0], self.effects[:, 1]
        better = (speed > math.log(1 + MARGIN)) | (memory < math.log(1 - MARGIN))
        no_worse = (speed > math.log(1 - DEFAULT_MARGIN)) & (memory < math.log(1 + DEFAULT_MARGIN))
        return float((self.used & ~(better & no_worse)).any(axis=1).mean())


def judge_all(
    values: Floats,
    effects: Floats,
    procedure: Procedure,
    confidence: float | None = None,
    looks: Sequence[int] = (),
) -> Judged:
    """Judge campaigns of (campaign, metric, member, block) at the procedure's looks; stop when all
    is decided.

    ``confidence``: instead of the procedure's own, for showing what becomes of it. ``looks``:
    instead of those declared.
    """
    return judge_logs(logs(values), effects, procedure, confidence, looks)


def judge_logs(
    values: Floats,
    effects: Floats,
    procedure: Procedure,
    confidence: float | None = None,
    looks: Sequence[int] = (),
) -> Judged:
    """As :func:`judge_all`, from blocks' values of variants that do not differ: (campaign, metric,
    variant, block).
    """
    found = values + effects.T[..., None]
    looks = looks or procedure.looks
    at = [procedure.after(look) for look in looks]
    levels = [confidence or p.confidence for p in at]
    bound_levels = [confidence or 2 * max(p.bound_levels.values()) - 1 for p in at]

    def compute(levels: Sequence[float]) -> list[Floats]:
        parts = [intervals(found[..., :n], level) for n, level in zip(looks, levels, strict=True)]
        return [np.stack([p[i] for p in parts], axis=1).swapaxes(2, 3) for i in range(3)]

    estimate, low, high = compute(levels)
    _, least, most = compute(bound_levels)
    within = (low >= 1 - MARGIN) & (high <= 1 + MARGIN)
    decided = ((low > 1) | (high < 1) | within).all(axis=(2, 3))
    over = np.logical_or.accumulate(decided, axis=1)
    looked = np.concatenate([np.ones((len(values), 1), bool), ~over[:, :-1]], axis=1)
    return Judged(
        estimate=estimate,
        low=low,
        high=high,
        least=least,
        most=most,
        looked=looked,
        effects=effects,
    )


def really_judged(values: Floats, effects: Floats, model: Experiment) -> list[Comparisons]:
    """One campaign of (metric, member, block), by the project's own functions: what it says at each
    look.
    """
    blocks = values.shape[-1]
    declared = procedure_of(model, blocks)
    names = [v.name for v in model.variant if v.name != model.baseline]
    said = []
    for look in declared.looks:
        procedure, family = declared.after(look), []
        for m, metric in enumerate(METRICS):
            for v, name in enumerate(names):
                places = {
                    (b, role): math.exp(values[m, r, b])
                    for b in range(look)
                    for r, role in enumerate(("A1", "A2"))
                }
                places |= {
                    (b, "V"): math.exp(values[m, 2 + v, b] + effects[v, m]) for b in range(look)
                }
                ratio = compute_ratio(list_logs(places), procedure.confidence)
                [bound_level] = procedure.bound_levels.values()
                bounds = compute_bounds(list_logs(places), bound_level)
                family.append(Comparison(name, metric, replace(ratio, bounds=bounds)))
        said.append(
            Comparisons(
                procedures={"solo": procedure},
                metrics=list(METRICS),
                family=family,
                floor=[],
                faulty={},
            )
        )
        if all_decided([c.ratio for c in family]):
            break
    return said


def really_used(said: Comparisons) -> set[str]:
    """Of which variants "Use X" could be said, by the project's own rule."""
    standings = recommend(said, BASELINE).standings
    return {name for name, standing in standings.items() if standing.ending is Ending.USE}


def violations(judged: Judged) -> list[str]:
    """What the method promises for a campaign, and these do not keep."""
    found = {
        "intervals that hold the truth": 1 - judged.coverage,
        "false differences": judged.false_differences,
    }
    if len(judged.effects[0]) > 1:
        found["false recommendations"] = judged.false_recommendations
    return [
        f"{what}: {share:.1%} of campaigns fail" for what, share in found.items() if share > ERROR
    ]


@dataclass(frozen=True)
class Scenario:
    """A host as throughput sees it, and as memory does."""

    speed: Host
    memory: Host = field(default=MEMORY)

    def values(self, chance: np.random.Generator, when: Times) -> Floats:
        """(campaign, metric, member, block)."""
        hosts: Sequence[Host] = (self.speed, self.memory, self.memory)
        return np.stack([host.values(chance, when) for host in hosts], axis=1)


# -- the duet ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Halves:
    """How the logarithm of a server's CPU per transaction varies from slice to slice of a duet.

    ``start``: SD of each server's luck. ``white``: SD of each server's slices. ``common``: SD of
    what hits both servers at once. ``apart``: by how much half 1 costs more than half 0; ``walk``:
    SD of that difference's step from slice to slice, over the whole campaign. ``busy``: the share
    of time in which a neighbour slows a half down by ``slow``, each half by itself, for ``spell``
    slices on average; it comes and goes in the midst of slices. ``pairs`` of slices in a duet.
    """

    start: float = 0.004
    white: float = 0.015
    common: float = 0.05
    apart: float = 0.03
    walk: float = 0.002
    busy: float = 0.0
    slow: float = 0.3
    spell: float = 5.0
    pairs: int = 3

    def neighbours(self, chance: np.random.Generator, campaigns: int, slices: int) -> Floats:
        """(campaign, half, slice): what neighbours add; four moments a slice, on which each is
        there or not.
        """
        moments = np.empty((campaigns, 2, 4 * slices))
        there = chance.random((campaigns, 2)) < self.busy
        leaves = 1 / (4 * self.spell)
        comes = leaves * self.busy / (1 - self.busy)
        for moment in range(moments.shape[-1]):
            there ^= chance.random(there.shape) < np.where(there, leaves, comes)
            moments[..., moment] = there
        return self.slow * moments.reshape(campaigns, 2, slices, 4).mean(axis=-1)

    def slices(self, chance: np.random.Generator, played: "Played") -> tuple[Floats, Floats]:
        """(campaign, partner, block, slice) of the baselines and of partners that do not differ
        from them.
        """
        campaigns, blocks, partners = played.when.shape
        each = 2 * self.pairs
        moments = (played.when * each)[..., None] + np.arange(each)
        apart = self.apart + chance.normal(
            0, self.walk, (campaigns, blocks * partners * each)
        ).cumsum(axis=1)
        half = (
            np.take_along_axis(apart, moments.reshape(campaigns, -1), axis=1).reshape(moments.shape)
            / 2
        )
        common = chance.normal(0, self.common, moments.shape)
        sides = []
        for side in range(2):
            own = chance.normal(0, self.start, (*played.when.shape, 1)) + chance.normal(
                0, self.white, moments.shape
            )
            on = np.where(played.halves[..., :each, side] == 1, 1, -1)
            sides.append((common + own + on * half).swapaxes(1, 2))
        if self.busy:
            added = self.neighbours(chance, campaigns, blocks * partners * each)
            for side in range(2):
                at = (
                    played.halves[..., :each, side].reshape(campaigns, -1),
                    moments.reshape(campaigns, -1),
                )
                mine = added[np.arange(campaigns)[:, None], *at].reshape(moments.shape)
                sides[side] += mine.swapaxes(1, 2)
        return sides[0], sides[1]

    def values(
        self, chance: np.random.Generator, played: "Played", how: Estimate = "paired"
    ) -> Floats:
        """(campaign, partner, block): what the blocks say by that estimate."""
        return block_logs(*self.slices(chance, played), how)


@dataclass(frozen=True)
class Played:
    """``when``: (campaign, block, partner), the duet's number in the campaign, from 0; ``halves``:
    (…, slice, side). The first partner is the baseline itself.
    """

    when: Times
    halves: NDArray[np.int8]


def played(model: Experiment, campaigns: int, blocks: int, slices: int = 6) -> Played:
    """By the project's schedule; every campaign has a seed of its own, 1, 2, …"""
    partners = [model.baseline, *(v.name for v in model.variant if v.name != model.baseline)]
    when = np.empty((campaigns, blocks, len(partners)), np.int64)
    halves = np.empty((campaigns, blocks, len(partners), slices, 2), np.int8)
    for seed in range(1, campaigns + 1):
        one = model.model_copy(update={"seed": seed})
        for number in range(1, blocks + 1):
            for p in schedule.order_duets(one, number):
                at = seed - 1, number - 1, partners.index(p.variant)
                when[at] = (number - 1) * len(partners) + p.position - 1
                halves[at] = [p.halves(n) for n in range(slices)]
    return Played(when, halves)


def never_swapped(model: Experiment, campaigns: int, blocks: int, slices: int = 6) -> Played:
    """What the project does not do: the baseline always on half 0."""
    found = played(model, campaigns, blocks, slices)
    return Played(found.when, np.zeros_like(found.halves) + np.array([0, 1], np.int8))


def block_logs(baseline: Floats, partner: Floats, how: Estimate = "paired") -> Floats:
    """`block_log` for arrays: from (…, slice) to (…); of the estimates that go by pairs."""
    found = partner - baseline
    if how == "paired":
        return ((found[..., 0::2] + found[..., 1::2]) / 2).mean(axis=-1)
    neighbours = np.sort((found[..., :-1] + found[..., 1:]) / 2, axis=-1)
    end = neighbours.shape[-1] // 4
    return neighbours[..., end : neighbours.shape[-1] - end].mean(axis=-1)
