#!/usr/bin/env python3
"""How dballoc tune does where the truth is known.

    benchmarks/tune_simulated.py [--searches 1000] [--planted 100] [--seeds 40]
                                 [--keep FILE [--minutes 5]]

Searches are simulated: what is tried next, who is put forward, and the confirmation's procedure are
dballoc's own; a trial's figures are drawn from a surface with the scatter of short real trials.
No search has presets. Three tables:

1. Spaces without any effect: the share of searches whose confirmation shows a finalist to be better
   in memory, at any of its looks. Must be at most 5 %.
2. A planted optimum, among settings that do nothing or cost CPU: the share of searches of which a
   finalist is within 5 % of the best memory that keeps to the bound, keeps to it itself, and is
   confirmed in both. Must be at least 90 %. Twice: two settings make the optimum together, and one
   more step of the first breaks the bound; and, as in a server whose arenas hold most of what is
   freed, one arena takes nearly half of the memory and costs nothing.
3. The hypervolume of the front that the search shows, of that of random search and of a grid, with
   the time of as many trials each: every front is chosen by what was read, the search's by its
   estimate, as its report does, and measured by the true values. Means, and the 95 % interval of
   the paired difference over the seeds. The search's must be larger. Beside it, for comparison:
   the front of readings of the search, and that of our estimate of random search and the grid.

Exit status 1 if a promise is broken. The scatter: 2 % of peak RSS and, in turns, 5, 10 and 15 % of
CPU from trial to trial, 2 % of CPU from duet to duet; 1.5 % of each from block to block of a
confirmation of ten blocks. A duet takes as long as one and a half of the other trials.

A search has the time of 60 trials, a third of what `dballoc tune` has by default; without any
effect that of 40: the fewer there are, the more is luck.

With --keep every search that is done is a line of a file, and the same command goes on where it was
stopped; --minutes stops it after that time with status 3. A file holds what one state of dballoc
did: begin a new one after a change of the search.
"""

import argparse
import itertools
import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import optuna
from scipy.stats import t as student

from dballoc.allocators.find_library import Allocator
from dballoc.experiment.model import Tune
from dballoc.questions.compare.measures import list_judged
from dballoc.questions.compare.procedure import CPU, MEMORY, declare_procedure, declare_shares
from dballoc.questions.compare.verdict import DEFAULT_MARGIN, Noninferiority, judge_standing
from dballoc.questions.statistics.ratio_interval import compute_ratio
from dballoc.questions.tune.estimate_effects import estimate_front
from dballoc.questions.tune.search_history import (
    ConfigurationResult,
    Ratios,
    Tried,
    list_front,
    summarize_standings,
)
from dballoc.search.choose_finalists import choose_finalists
from dballoc.search.plan_trials import SearchAim, StageProgress, plan_next_trial
from dballoc.search.propose_parameters import draw_parameters
from dballoc.search.search_space import Parameters, Space, build_space

BOUND = math.log(1.03)
MEMORY_NOISE = 0.02
# A search's CPU scatter is one of these, by its seed.
COST_NOISES = (0.05, 0.10, 0.15)
DUET_NOISE = 0.02
SECONDS, DUET_SECONDS = 10.0, 15.0
FLAT_TRIALS = 40
BLOCK_NOISE = 0.015
BLOCKS = 10
CORES = 8
# Trials of the default that random search and the grid have, as the search does.
DEFAULTS = 6
# The front is measured up to here, as ln of memory and of cost.
REFERENCE = (0.2, 0.2)
MOST_FALSE, LEAST_FOUND, NEAR = 0.05, 0.90, 0.05
# What fronts the search is compared with, and whether its own is promised to be larger.
OTHER_WAYS = {
    "random": True,
    "grid": True,
    "search, readings": False,
    "random, estimated": False,
    "grid, estimated": False,
}

FloatArray = npt.NDArray[np.float64]
# (ln memory, ln CPU) of a configuration.
Surface = Callable[[Parameters], tuple[float, float]]


def flat(parameters: Parameters) -> tuple[float, float]:
    """A space without any effect."""
    return 0.0, 0.0


def planted(parameters: Parameters) -> tuple[float, float]:
    """Arenas and trimming save memory, the more together, and trimming costs a little CPU; one
    arena costs CPU beyond the bound, as does a small cache of threads; the rest does nothing.
    """
    arenas = math.log2(int(parameters.get("arena_max", 8 * CORES)))
    trims = int(parameters.get("trim_threshold", 2**26)) <= 2**18
    memory = -0.06 * (math.log2(8 * CORES) - arenas) - (0.15 if trims else 0.0)
    cost = (0.06 if arenas == 0 else 0.0) + (0.005 if trims else 0.0)
    cost += 0.08 if parameters.get("tcache_count") == "0" else 0.0
    return memory, cost


def arenas(parameters: Parameters) -> tuple[float, float]:
    """One arena saves nearly half of the memory for nothing; what is mmapped or trimmed often costs
    CPU, as does no cache of threads.
    """
    count = math.log2(int(parameters.get("arena_max", 8 * CORES)))
    pad = math.log2(int(parameters.get("top_pad", 2**17)))
    memory = -0.58 * (1 - count / math.log2(8 * CORES)) + 0.02 * max(0.0, pad - 19)
    cost = 0.08 if parameters.get("tcache_count") == "0" else 0.0
    for name, each in (("mmap_threshold", 0.02), ("trim_threshold", 0.01)):
        if name in parameters:
            cost += each * max(0.0, 17 - math.log2(int(parameters[name])))
    return memory, cost


def trade(parameters: Parameters) -> tuple[float, float]:
    """A real trade: what saves memory costs CPU, smoothly, and two more settings matter."""
    arenas = math.log2(int(parameters.get("arena_max", 8 * CORES))) / 6
    pad = math.log2(int(parameters.get("top_pad", 2**17)))
    count = int(parameters.get("tcache_count", 7)) / 127
    memory = -0.5 * (1 - arenas) ** 0.5 + 0.02 * max(0.0, pad - 17) + 0.1 * count
    cost = 0.12 * (1 - arenas) ** 2 - 0.05 * count**0.5 - 0.008 * max(0.0, pad - 17)
    return memory, cost


SURFACES: Mapping[str, Surface] = {
    "flat": flat, "planted": planted, "arenas": arenas, "trade": trade
}  # fmt: skip


def make_space() -> Space:
    """Return glibc's space without its presets."""
    return build_space(
        Allocator(name="glibc", libraries=(), version="2.41"), Tune(presets=False), CORES
    )


def run_search(surface: Surface, trials: int, seed: int) -> list[Tried]:
    """Return the trials of one simulated search, which has the time of so many trials alone."""
    chance, space, tried = np.random.default_rng(seed), make_space(), list[Tried]()
    aim = SearchAim(objective="memory", bound=BOUND, seed=seed * 1000)
    noise = COST_NOISES[seed % len(COST_NOISES)]
    while (spent := sum(t.seconds for t in tried)) + SECONDS <= trials * SECONDS:
        pace = StageProgress(progress=spent / (trials * SECONDS), trials=trials)
        candidate = plan_next_trial({"glibc": space}, tried, "server", aim, pace, {"glibc": ()})
        if candidate is None:
            break
        memory, cost = surface(candidate.parameters)
        alone = candidate.design == "solo"
        memory += chance.normal(0, MEMORY_NOISE)
        cost += chance.normal(0, noise if alone else DUET_NOISE)
        tried.append(
            Tried(
                number=len(tried) + 1,
                stage="server",
                base="glibc",
                origin=candidate.origin,
                variant=candidate.variant,
                parameters=candidate.parameters,
                fault=None,
                rss=int(3e8 * math.exp(memory)) if alone else None,
                costs={"w": 1e-3 * math.exp(cost)} if alone else {},
                seconds=SECONDS if alone else DUET_SECONDS,
                design=candidate.design,
                ratios={} if alone else {"w": cost},
            )
        )
    return tried


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one search came to: the true values of its finalists, which of them the confirmation
    shows to be ``better`` in memory, and which it shows to cost no more than the margin as well.
    """

    finalists: list[tuple[float, float]]
    better: list[bool]
    confirmed: list[bool]


def judge_search(surface: Surface, trials: int, seed: int) -> Outcome:
    """Search, put forward, confirm."""
    standings = summarize_standings(run_search(surface, trials, seed), "server")
    finalists = choose_finalists(standings, "memory", BOUND, 3)
    values = [surface(s.parameters) for s in finalists]
    better, confirmed = confirm(values, seed + 10**6)
    return Outcome(finalists=values, better=better, confirmed=confirmed)


def confirm(values: Sequence[tuple[float, float]], seed: int) -> tuple[list[bool], list[bool]]:
    """Return which finalists, of these true values, a confirmation shows to be better in memory,
    and which to keep to the bound besides, at any of its looks. All share the baseline's blocks of
    memory; in a duet each has its own.
    """
    if not values:
        return [], []
    chance = np.random.default_rng(seed)
    shares = declare_shares(list_judged(["solo", "duet"]), len(values) + 1, 1)
    procedure = declare_procedure(BLOCKS, shares)
    baseline = chance.normal(0, BLOCK_NOISE, (2, BLOCKS)).mean(axis=0)

    def judge(logs: FloatArray, measure: str, look: int) -> Noninferiority:
        confidence = procedure.after(look).levels[measure]
        return judge_standing(compute_ratio(list(logs[:look]), confidence), "lower", DEFAULT_MARGIN)

    better, confirmed = [], []
    for memory, cost in values:
        memories = memory + chance.normal(0, BLOCK_NOISE, BLOCKS) - baseline
        costs = cost + chance.normal(0, BLOCK_NOISE, BLOCKS)
        looks = [
            look
            for look in procedure.looks
            if judge(memories, MEMORY, look) is Noninferiority.BETTER
        ]
        kept = (Noninferiority.BETTER, Noninferiority.NO_WORSE)
        better.append(bool(looks))
        confirmed.append(any(judge(costs, CPU, look) in kept for look in looks))
    return better, confirmed


def is_planted_optimum_found(outcome: Outcome, best: float) -> bool:
    """Whether a confirmed finalist is near the best memory and keeps to the bound."""
    return any(
        confirmed and memory <= best + NEAR and cost <= BOUND
        for (memory, cost), confirmed in zip(outcome.finalists, outcome.confirmed, strict=True)
    )


def measure_hypervolume(values: Sequence[tuple[float, float]]) -> float:
    """Return the area between the front of some values and the reference point."""
    area, ceiling = 0.0, REFERENCE[1]
    for memory, cost in sorted(values):
        if memory < REFERENCE[0] and cost < ceiling:
            area += (REFERENCE[0] - memory) * (ceiling - cost)
            ceiling = cost
    return area


def compare_fronts(surface: Surface, trials: int, seed: int) -> Mapping[str, float]:
    """Return the hypervolume, by true values, of the front that each way of searching shows: of the
    estimate, as the report does, and for those who only have readings, of readings.
    """
    space, chance = make_space(), np.random.default_rng(seed + 10**7)
    study = optuna.create_study(
        directions=["minimize"] * 2, sampler=optuna.samplers.RandomSampler(seed=seed)
    )
    drawn = [draw_parameters(space, study.ask()) for _ in range(trials)]
    grid = list_grid(space)
    np.random.default_rng(seed).shuffle(grid)
    noises = MEMORY_NOISE, COST_NOISES[seed % len(COST_NOISES)]

    def read(tried: Sequence[Parameters]) -> list[ConfigurationResult]:
        readings = [np.array(surface(p)) + chance.normal(0, noises) for p in tried]
        return [
            ConfigurationResult(base="glibc", variant=str(i), parameters=p, readings=(Ratios(*r),))
            for i, (p, r) in enumerate(zip(tried, readings, strict=True))
        ]

    defaults = [Ratios(*chance.normal(0, noises)) for _ in range(DEFAULTS)]
    default = ConfigurationResult(base="glibc", variant="glibc", readings=tuple(defaults))
    searched = summarize_standings(run_search(surface, trials, seed), "server")
    randomly, gridded = read(drawn), read(grid[:trials])
    fronts = {
        "search": list_estimated_front(searched),
        "search, readings": list_front(searched),
        "random": list_front(randomly),
        "grid": list_front(gridded),
        "random, estimated": list_estimated_front([default, *randomly]),
        "grid, estimated": list_estimated_front([default, *gridded]),
    }
    return {
        way: measure_hypervolume([surface(s.parameters) for s in front])
        for way, front in fronts.items()
    }


def list_estimated_front(standings: Sequence[ConfigurationResult]) -> list[ConfigurationResult]:
    """Return the front that the report of a search shows."""
    return [e.standing for e in estimate_front(standings) if e.on_front]


def list_grid(space: Space) -> list[dict[str, str]]:
    """Return every combination of each knob left alone, at its least, middle and most."""
    axes = []
    for knob in space.knobs:
        values = list(knob.words)
        if not values:
            middle = math.sqrt(max(1, knob.least) * knob.most) if knob.log else knob.most / 2
            if knob.powers:
                middle = 2 ** round(math.log2(middle))
            values = [str(int(v)) for v in (knob.least, middle, knob.most)]
        axes.append([None, *values])
    names = [knob.name for knob in space.knobs]
    return [
        {n: v for n, v in zip(names, chosen, strict=True) if v is not None}
        for chosen in itertools.product(*axes)
    ]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One simulation: what is measured (``finalists`` or ``fronts``) on which surface."""

    what: str
    surface: str
    trials: int
    seed: int


def run_job(job: Job) -> dict[str, Any]:
    """Return what a simulation gave, as it is kept."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    surface = SURFACES[job.surface]
    if job.what == "fronts":
        return dict(compare_fronts(surface, job.trials, job.seed))
    return asdict(judge_search(surface, job.trials, job.seed))


class Kept:
    """The simulations that are done: lines of a file, where there is one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._done: dict[Job, dict[str, Any]] = {}
        if path is not None and path.exists():
            # A line that a kill cut short is made again.
            lines = [x for x in path.read_text().splitlines(keepends=True) if x.endswith("\n")]
            path.write_text("".join(lines))
            for entry in map(json.loads, lines):
                self._done[Job(**entry["job"])] = entry["gave"]

    def run_jobs(self, pool: ProcessPoolExecutor, jobs: Sequence[Job], until: float) -> bool:
        """Run those that are not done yet, until ``until`` (monotonic); returns whether all are."""
        left = [job for job in jobs if job not in self._done]
        for chunk in (left[i : i + 8] for i in range(0, len(left), 8)):
            if time.monotonic() > until:
                return False
            for job, gave in zip(chunk, pool.map(run_job, chunk), strict=True):
                self._keep(job, gave)
        return True

    def _keep(self, job: Job, gave: dict[str, Any]) -> None:
        self._done[job] = gave
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps({"job": asdict(job), "gave": gave}) + "\n")

    def list_results(self, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        """Return what these simulations gave."""
        return [self._done[job] for job in jobs]


def main() -> int:
    """Print the three tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--searches", type=int, default=1000, help="without any effect")
    parser.add_argument("--planted", type=int, default=100, help="searches of each with an optimum")
    parser.add_argument("--seeds", type=int, default=40, help="comparisons of fronts")
    parser.add_argument(
        "--trials", type=int, default=60, help="of each search; without any effect 40"
    )
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="the file of what is done")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after this time")
    arguments = parser.parse_args()
    jobs = {
        (what, surface): [
            Job(what=what, surface=surface, trials=trials, seed=arguments.first + i)
            for i in range(number)
        ]
        for what, number, trials, surfaces in (
            ("finalists", arguments.searches, FLAT_TRIALS, ("flat",)),
            ("finalists", arguments.planted, arguments.trials, ("planted", "arenas")),
            ("fronts", arguments.seeds, arguments.trials, ("planted", "trade")),
        )
        for surface in surfaces
    }
    kept, until = Kept(arguments.keep), time.monotonic() + 60 * arguments.minutes
    # The matrices are small: threads of BLAS beside the jobs took most of the time. It reads this
    # when it is loaded, so the workers load it anew.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn")) as pool:
        if not kept.run_jobs(pool, list(itertools.chain(*jobs.values())), until):
            print("stopped; the same command goes on")
            return 3
    holds = True
    for (what, surface), of_table in jobs.items():
        if not (results := kept.list_results(of_table)):
            continue
        if what == "fronts":
            holds &= report_fronts(surface, results)
        elif surface == "flat":
            holds &= report_false_findings([Outcome(**r) for r in results])
        else:
            by_seed = {job.seed: Outcome(**r) for job, r in zip(of_table, results, strict=True)}
            holds &= report_planted_optimum(surface, by_seed)
    return int(not holds)


def report_false_findings(outcomes: Sequence[Outcome]) -> bool:
    """Print table 1; returns whether its promise holds."""
    searches = len(outcomes)
    share = sum(any(o.better) for o in outcomes) / searches
    without = sum(not o.finalists for o in outcomes) / searches
    # As if every search had put three luckless finalists forward.
    forced = sum(any(confirm([(0.0, 0.0)] * 3, seed)[0]) for seed in range(searches)) / searches
    print(f"1. {searches:,} searches without any effect")
    print(f'   false "improved":      {share:.1%} (at most {MOST_FALSE:.0%})')
    print(f"   nobody put forward:    {without:.1%}")
    print(f'   with three finalists each, false "improved": {forced:.1%}')
    return share <= MOST_FALSE and forced <= MOST_FALSE


def report_planted_optimum(name: str, outcomes: Mapping[int, Outcome]) -> bool:
    """Print a row of table 2; returns whether its promise holds."""
    surface, searches = SURFACES[name], len(outcomes)
    values = [surface(p) for p in list_grid(make_space())] + [
        surface({"arena_max": str(n), "trim_threshold": "131072"}) for n in range(1, 9)
    ]
    best = min(memory for memory, cost in values if cost <= BOUND)
    near = {seed: is_planted_optimum_found(o, best) for seed, o in outcomes.items()}
    improved = [
        any(c and cost <= BOUND for (_, cost), c in zip(o.finalists, o.confirmed, strict=True))
        for o in outcomes.values()
    ]
    share = sum(near.values()) / searches
    print(f"2. {name}: {searches:,} searches, best memory × {math.exp(best):.2f}")
    print(f"   found within {NEAR:.0%}:       {share:.1%} (at least {LEAST_FOUND:.0%})")
    for i, noise in enumerate(COST_NOISES):
        of_noise = [is_near for seed, is_near in near.items() if seed % len(COST_NOISES) == i]
        print(f"      CPU scatter {noise:.0%}:   {sum(of_noise) / max(1, len(of_noise)):.1%}")
    print(f"   some gain within the bound confirmed: {sum(improved) / searches:.1%}", flush=True)
    return share >= LEAST_FOUND


def report_fronts(name: str, volumes: Sequence[Mapping[str, float]]) -> bool:
    """Print rows of table 3; returns whether its promise holds."""
    seeds, holds = len(volumes), True
    for other, is_promised in OTHER_WAYS.items():
        differences = np.array([v["search"] - v[other] for v in volumes])
        mean, error = differences.mean(), differences.std(ddof=1) / math.sqrt(seeds)
        half = student.ppf(0.975, seeds - 1) * error
        searched, usual = (np.mean([v[way] for v in volumes]) for way in ("search", other))
        print(
            f"3. {name}, {seeds} seeds: hypervolume {searched:.4f}, {other} {usual:.4f}, "
            f"difference {mean:+.4f} [{mean - half:+.4f}, {mean + half:+.4f}]"
            f"{'' if is_promised else ' (nothing promised)'}",
            flush=True,
        )
        holds &= not is_promised or bool(mean - half > 0)
    return holds


if __name__ == "__main__":
    sys.exit(main())
