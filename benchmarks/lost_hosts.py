"""A campaign on many hosts without a host: the real driver, store and analysis over a simulated
executor (tests/unit/simulated_hosts.py), in a clock of its own.

    python benchmarks/lost_hosts.py [--hosts 100] [--blocks 1000] [--lost 0.1]
    python benchmarks/lost_hosts.py --bias 200

The first prints what the driver costs: its CPU seconds as a share of the virtual time that the
campaign takes, and its largest RSS, both without Ray; and which share of the time in which hosts
live they spend in trials. The answers are made beforehand, so that only the driver is timed. The
second runs many small campaigns that lose hosts, once at random and once in trials of one variant
alone, and prints how often an interval does not hold the truth.
"""

import argparse
import math
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "unit")]

import example_results  # noqa: E402
import simulated_hosts  # noqa: E402
from simulated_hosts import SimulatedHosts  # noqa: E402

from dballoc.analysis.campaign_tables import load_campaign  # noqa: E402
from dballoc.analysis.tables.baseline_comparison import compare_with_baseline  # noqa: E402
from dballoc.experiment.model import Experiment  # noqa: E402
from dballoc.experiment.schedule import Slot  # noqa: E402
from dballoc.hosts.executor import Event, HostLost  # noqa: E402
from dballoc.store.results import Results, TrialRecord  # noqa: E402

# True ratios to the baseline, and the standard deviations of ln: of hosts, and of starts.
TRUTH = {"glibc": 1.0, "jemalloc": 0.97, "tuned": 1.0}
HOSTS, STARTS = 0.2, 0.01


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
    standard deviation ``starts`` of ln. Their other rows are an example's.
    """

    def __init__(self, seed: int, starts: float = STARTS) -> None:
        self._starts = starts
        self._draw = random.Random(seed)
        self._hosts: dict[str, float] = {}
        self._example: TrialRecord | None = None

    def __call__(self, experiment: Experiment, slot: Slot, host: str) -> TrialRecord:
        """Return one trial."""
        if self._example is None:
            self._example = example_results.record(experiment, slot)
        size = self._hosts.setdefault(host, self._draw.gauss(0, HOSTS))
        luck = [self._draw.gauss(0, self._starts) for _ in range(2)]
        memory, speed = (TRUTH[slot.variant] * math.exp(size + x) for x in luck)
        record = TrialRecord(**vars(self._example))
        record.trial = {
            **record.trial,
            "rss_peak": int(memory * 2e8),
            "rss_idle": int(memory * 1e8),
        }
        record.steps = [{**step, "tps": 1000 * speed} for step in record.steps]
        return record


def measure_cost(hosts: int, blocks: int, lost: float) -> None:
    """Print what the driver costs for one campaign."""
    trials = 4 * blocks
    odds = hosts * lost / trials
    cluster = TimedHosts(
        names=[f"h{number:03}" for number in range(hosts)],
        lose=lambda draw, variant: draw.random() < odds,
        # So wide that no look decides anything, and all blocks are run.
        record=DrawnTrials(1, starts=0.5),
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


class TimedHosts(SimulatedHosts):
    """Knows what the simulation itself costs, and how long its hosts lived."""

    own_cpu = 0.0
    lost_at: Mapping[str, float] = {}

    def start_block(self, host: Any, request: Any) -> None:
        """Start a block; the CPU seconds of making its answers are not the driver's."""
        began = time.process_time()
        super().start_block(host, request)
        self.own_cpu += time.process_time() - began

    def poll(self, seconds: float) -> list[Event]:
        """Return what comes, and note when hosts are lost."""
        events = super().poll(seconds)
        lost = {e.host: self.now for e in events if isinstance(e, HostLost)}
        if lost:
            self.lost_at = {**self.lost_at, **lost}
        return events

    @property
    def living(self) -> float:
        """Seconds of all hosts, each to its loss or to the campaign's end."""
        return sum(self.lost_at.get(name, self.now) for name in self.names)


def make_loss_rule(suspect: str | None) -> Callable[[random.Random, str], bool]:
    """Return what loses the host of a trial: any one's seldom, or the suspect's alone, often."""
    probability = 0.05 if suspect is None else 0.2
    return lambda draw, variant: suspect in (None, variant) and draw.random() < probability


def measure_bias(campaigns: int) -> None:
    """Print how often intervals miss the truth, in campaigns that lose hosts."""
    for words, suspect in (("at random", None), ("in trials of tuned alone", "tuned")):
        misses = comparisons = lost = 0
        sums: dict[str, float] = defaultdict(float)
        for seed in range(campaigns):
            cluster = SimulatedHosts(
                names=[f"h{number}" for number in range(20)],
                seed=seed,
                lose=make_loss_rule(suspect),
                record=DrawnTrials(seed),
            )
            place = Path(tempfile.mkdtemp(prefix="dballoc-simulated-"))
            try:
                _, path = simulated_hosts.run(make_experiment(10), cluster, place / "r")
                family = compare_with_baseline(load_campaign(path)).family
            finally:
                shutil.rmtree(place)
            lost += len(cluster.names) - len(cluster.alive)
            wrong = False
            for row in family:
                if row.ratio and row.ratio.has_interval:
                    truth = TRUTH[row.variant]
                    comparisons += 1
                    wrong |= not row.ratio.low <= truth <= row.ratio.high
                    sums[row.variant] += math.log(row.ratio.estimate / truth) / 2
            misses += wrong
        print(
            f"losses {words}: {misses} of {campaigns} campaigns ({misses / campaigns:.1%}) with an "
            f"interval that misses the truth, {lost / campaigns:.1f} of 20 hosts lost, "
            f"{comparisons} intervals; mean error of ln ratio: "
            + ", ".join(f"{name} {total / campaigns:+.5f}" for name, total in sums.items())
        )


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--blocks", type=int, default=1000)
    parser.add_argument("--lost", type=float, default=0.1, help="share of the hosts")
    parser.add_argument("--bias", type=int, metavar="CAMPAIGNS")
    arguments = parser.parse_args()
    if arguments.bias:
        measure_bias(arguments.bias)
    else:
        measure_cost(arguments.hosts, arguments.blocks, arguments.lost)


if __name__ == "__main__":
    main()
