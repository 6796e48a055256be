"""A campaign on many hosts without a host: the real driver, store and analysis over a simulated
executor (tests/unit/simulated_hosts.py), in a clock of its own.

    python benchmarks/lost_hosts.py [--hosts 100] [--blocks 1000] [--lost 0.1] [--seed 1]
    python benchmarks/lost_hosts.py --bias 2000 [--out FILE] [--jobs 2]

The first prints what the driver costs: its CPU seconds as a share of the virtual time that the
campaign takes, and its largest RSS, both without Ray; which share of the time in which hosts live
they spend in trials, and where the rest goes. The answers are made beforehand, so that only the
driver is timed. The second runs many small campaigns that lose hosts, once at random and once in
trials of one variant alone, and prints how often an interval does not hold the truth. What each
campaign gave is a line of FILE, and an interrupted run goes on where it stopped.
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "unit")]

import example_results  # noqa: E402
import simulated_hosts  # noqa: E402
from simulated_hosts import SimulatedHosts  # noqa: E402

from dballoc.campaign.elsewhere.executor import Event, HostLine, HostLost  # noqa: E402
from dballoc.experiment.model import Experiment  # noqa: E402
from dballoc.experiment.schedule import Slot  # noqa: E402
from dballoc.questions.compare.baseline_comparison import compare_with_baseline  # noqa: E402
from dballoc.questions.compare.campaign_tables import load_campaign  # noqa: E402
from dballoc.store.results import Results, TrialRecord  # noqa: E402
from dballoc.store.rows import HostSampleRow, IntervalRow, SampleRow, StepRow  # noqa: E402

# True ratios to the baseline, and the standard deviations of ln: of hosts, and of starts.
TRUTH = {"glibc": 1.0, "jemalloc": 0.97, "tuned": 1.0}
HOSTS, STARTS = 0.2, 0.01
# The variant that takes hosts down.
SUSPECT = "tuned"


def make_experiment(blocks: int) -> Experiment:
    """Return an experiment of three variants."""
    return Experiment.model_validate(
        {
            "name": "many",
            "design": "solo",
            "baseline": "glibc",
            "workloads": ["oltp_read_only"],
            "threads": [4],
            "blocks": blocks,
            "time": {"warmup": "0s", "level": "60s", "idle": "0s"},
            "variant": [{"name": name} for name in TRUTH],
        }
    )


class DrawnTrials:
    """Makes trials with a known truth: a host's size, a variant's ratio, a start's luck with the
    standard deviation ``starts`` of ln. Their other rows are an example's; ``series``: those that
    come once a second too, of which no verdict needs any.
    """

    def __init__(self, seed: int, starts: float = STARTS, *, series: bool = True) -> None:
        self._starts = starts
        self._series = series
        self._draw = random.Random(seed)
        self._hosts: dict[str, float] = {}
        self._example: TrialRecord | None = None

    def __call__(self, experiment: Experiment, slot: Slot, host: str) -> TrialRecord:
        """Return one trial."""
        if self._example is None:
            self._example = example_results.record(experiment, slot)
            if not self._series:
                self._example.remove(SampleRow, IntervalRow, HostSampleRow)
        size = self._hosts.setdefault(host, self._draw.gauss(0, HOSTS))
        luck = [self._draw.gauss(0, self._starts) for _ in range(2)]
        memory, speed = (TRUTH[slot.variant] * math.exp(size + x) for x in luck)
        sizes: dict[str, Any] = {"rss_peak": int(memory * 2e8), "rss_idle": int(memory * 1e8)}
        rows = [
            replace(row, tps=1000 * speed) if isinstance(row, StepRow) else row
            for row in self._example.rows
        ]
        return TrialRecord(trial=replace(self._example.trial, **sizes), rows=rows)


def measure_cost(hosts: int, blocks: int, lost: float, seed: int) -> None:
    """Print what the driver costs for one campaign."""
    trials = 4 * blocks
    odds = hosts * lost / trials
    cluster = TimedHosts(
        names=[f"h{number:03}" for number in range(hosts)],
        seed=seed,
        lose=lambda draw, variant: draw.random() < odds,
        # So wide that no look decides anything, and all blocks are run.
        record=DrawnTrials(seed, starts=0.5),
    )
    place = Path(tempfile.mkdtemp(prefix="dballoc-simulated-"))
    try:
        began = time.process_time()
        ending, path = simulated_hosts.run(make_experiment(blocks), cluster, place / "r")
        cpu = time.process_time() - began - cluster.own_cpu
        results = Results.open(path, read_only=True)
        good_trials = results.good_trials()
        results.close()
    finally:
        shutil.rmtree(place)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{ending.blocks['solo']} blocks ({ending.why}), {good_trials} good trials,", end=" ")
    print(f"{len(cluster.names) - len(cluster.alive)} of {hosts} hosts lost")
    print(f"driver: {cpu:.0f} s of CPU in {cluster.now:.0f} s: {cpu / cluster.now:.2%} of one core")
    print(f"largest RSS, the simulation's own included: {rss:.0f} MiB")
    print(f"of the hosts' living time, in finished trials: {cluster.busy / cluster.living:.1%}")
    without = cluster.living - cluster.idle_at_end
    print(
        f"    without a block to begin, at the end: {cluster.idle_at_end / cluster.living:.1%}; of "
        f"the rest, in finished trials: {cluster.busy / without:.1%}"
    )


class TimedHosts(SimulatedHosts):
    """Knows what the simulation itself costs, and how long its hosts lived."""

    own_cpu = 0.0
    lost_at: Mapping[str, float] = {}
    free_since: Mapping[str, float] = {}

    def start_block(self, host: Any, request: Any) -> None:
        """Start a block; the CPU seconds of making its answers are not the driver's."""
        began = time.process_time()
        self.free_since = {k: v for k, v in self.free_since.items() if k != host.name}
        super().start_block(host, request)
        self.own_cpu += time.process_time() - began

    def poll(self, seconds: float) -> list[Event]:
        """Return what comes, and note when hosts are lost, or free."""
        events = super().poll(seconds)
        for event in events:
            if isinstance(event, HostLine) and b'"kind":"ended"' in event.line:
                self.free_since = {**self.free_since, event.host: self.now}
        lost = {e.host: self.now for e in events if isinstance(e, HostLost)}
        if lost:
            self.lost_at = {**self.lost_at, **lost}
        return events

    @property
    def idle_at_end(self) -> float:
        """Seconds of all hosts from the end of their last block on, for want of another."""
        return sum(
            self.now - since for name, since in self.free_since.items() if name in self.alive
        )

    @property
    def living(self) -> float:
        """Seconds of all hosts, each to its loss or to the campaign's end."""
        return sum(self.lost_at.get(name, self.now) for name in self.names)


def make_loss_rule(suspect: str | None) -> Callable[[random.Random, str], bool]:
    """Return what loses the host of a trial: any one's seldom, or the suspect's alone, often."""
    probability = 0.05 if suspect is None else 0.2
    return lambda draw, variant: suspect in (None, variant) and draw.random() < probability


@dataclass(frozen=True, kw_only=True)
class SmallCampaign:
    """What a small campaign gave: hosts ``lost``, how many ``intervals``, whether one of them
    misses the truth, and by variant the sum of the errors of ln ratio.
    """

    suspect: str | None
    seed: int
    lost: int
    intervals: int
    misses: bool
    errors: dict[str, float]


def run_small_campaign(job: tuple[str | None, int]) -> SmallCampaign:
    """Run one, that loses hosts. ``job``: the suspect, and the seed."""
    suspect, seed = job
    cluster = SimulatedHosts(
        names=[f"h{number}" for number in range(20)],
        seed=seed,
        lose=make_loss_rule(suspect),
        record=DrawnTrials(seed, series=False),
    )
    place = Path(tempfile.mkdtemp(prefix="dballoc-simulated-"))
    try:
        _, path = simulated_hosts.run(make_experiment(10), cluster, place / "r")
        family = compare_with_baseline(load_campaign(path, series=False)).family
    finally:
        shutil.rmtree(place)
    ratios = [(row.variant, row.ratio) for row in family if row.ratio and row.ratio.interval]
    errors: dict[str, float] = defaultdict(float)
    for variant, ratio in ratios:
        errors[variant] += math.log(ratio.estimate / TRUTH[variant])
    return SmallCampaign(
        suspect=suspect,
        seed=seed,
        lost=len(cluster.names) - len(cluster.alive),
        intervals=len(ratios),
        misses=any(
            not ratio.interval.low <= TRUTH[variant] <= ratio.interval.high
            for variant, ratio in ratios
            if ratio.interval
        ),
        errors=dict(errors),
    )


def read_campaigns(out: Path) -> dict[tuple[str | None, int], SmallCampaign]:
    """Return those that an earlier run has finished; a last line that was cut is removed."""
    text = out.read_text() if out.exists() else ""
    complete = text[: text.rfind("\n") + 1]
    if complete != text:
        out.write_text(complete)
    done = [SmallCampaign(**json.loads(line)) for line in complete.splitlines()]
    return {(each.suspect, each.seed): each for each in done}


def measure_bias(campaigns: int, out: Path, jobs: int) -> None:
    """Run what is missing of so many campaigns of each kind, and print how often intervals miss
    the truth.
    """
    finished = read_campaigns(out)
    missing = [
        (suspect, seed)
        for seed in range(campaigns)
        for suspect in (None, SUSPECT)
        if (suspect, seed) not in finished
    ]
    out.parent.mkdir(parents=True, exist_ok=True)
    # polars has threads, which a fork would leave without their locks.
    processes = multiprocessing.get_context("spawn")
    with out.open("a") as file, processes.Pool(jobs) as pool:
        for each in pool.imap_unordered(run_small_campaign, missing):
            finished[each.suspect, each.seed] = each
            file.write(json.dumps(asdict(each)) + "\n")
            file.flush()
    for words, suspect in (("at random", None), (f"in trials of {SUSPECT} alone", SUSPECT)):
        print(describe_bias(words, [finished[suspect, seed] for seed in range(campaigns)]))


def describe_bias(words: str, done: Sequence[SmallCampaign]) -> str:
    """Return what so many campaigns of a kind gave, in a line."""
    misses, number = sum(each.misses for each in done), len(done)
    # Each variant has two comparisons.
    means = {
        name: sum(each.errors.get(name, 0.0) for each in done) / 2 / number
        for name in TRUTH
        if any(name in each.errors for each in done)
    }
    return (
        f"losses {words}: {misses} of {number} campaigns ({misses / number:.1%}) with an interval "
        f"that misses the truth, {sum(each.lost for each in done) / number:.1f} of 20 hosts lost, "
        f"{sum(each.intervals for each in done)} intervals; mean error of ln ratio: "
        + ", ".join(f"{name} {mean:+.5f}" for name, mean in means.items())
    )


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--blocks", type=int, default=1000)
    parser.add_argument("--lost", type=float, default=0.1, help="share of the hosts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bias", type=int, metavar="CAMPAIGNS")
    parser.add_argument("--out", type=Path, default=Path("build/lost-hosts.jsonl"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.bias:
        measure_bias(arguments.bias, arguments.out, arguments.jobs)
    else:
        measure_cost(arguments.hosts, arguments.blocks, arguments.lost, arguments.seed)


if __name__ == "__main__":
    main()
