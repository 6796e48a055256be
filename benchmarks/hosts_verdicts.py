"""Whether three nodes give the verdicts that one machine gives.

    sudo python benchmarks/hosts_verdicts.py [--blocks 8] [--design solo] [--out DIR]

One experiment is run twice: by ``dballoc bench`` on this machine, and by ``dballoc bench --ray`` on
three Ray nodes in network namespaces of it (tools/demo-hosts), each a server host. The nodes share
this machine's kernel, so their blocks run in turn, and both campaigns take as long. Its variants
are glibc twice, between which there is no difference, jemalloc, and glibc with a performance
schema, whose memory is plain. Printed are, for each comparison, both intervals and verdicts; how
many verdicts are the same; and of each campaign which share of its time was in trials.

Both campaigns are kept below DIR, and an interrupted run goes on where it stopped. The exit status
is 1 where two verdicts contradict each other: higher and lower, or intervals that have nothing in
common; or where the planted difference is not the same. An interval that ends near 1 or near the
margin may be "no difference shown" in one of two campaigns by chance.
"""

import argparse
import itertools
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import campaigns
import polars as pl

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "integration")]

from demo_cluster import load_demo_hosts  # noqa: E402

from dballoc.questions.compare.baseline_comparison import Comparison, compare_with_baseline  # noqa: E402
from dballoc.questions.compare.campaign_tables import Campaign  # noqa: E402
from dballoc.questions.compare.verdict import Verdict  # noqa: E402

BASELINE, TWIN, PLANTED = "glibc", "glibc-again", "performance-schema"
PLANTED_METRIC = "rss_peak"
# Seconds between two trials that are a pause.
PAUSE = 60.0
VARIANTS: list[dict[str, Any]] = [
    {"name": BASELINE, "allocator": "glibc"},
    {"name": TWIN, "allocator": "glibc"},
    {"name": "jemalloc", "allocator": "jemalloc"},
    {
        "name": PLANTED,
        "allocator": "glibc",
        "server": {"options": {"performance_schema": "ON"}},
    },
]


def make_table(blocks: int, design: str) -> dict[str, Any]:
    """Return the experiment: read-only transactions on data that fit the pool."""
    return {
        "name": "hosts-verdicts",
        "design": design,
        "blocks": blocks,
        "baseline": BASELINE,
        "workloads": ["oltp_read_only"],
        "threads": [4],
        "server": {"options": {"innodb_buffer_pool_size": "64M"}},
        "data": {"tables": 1, "rows": 20_000},
        "time": {"warmup": "1s", "level": "5s", "idle": "0s"},
        "variant": VARIANTS,
    }


def run_on_nodes(out: Path, table: dict[str, Any]) -> Campaign:
    """Run or resume the campaign on three nodes; none are started for one that has ended."""
    if campaigns.is_finished(out, campaigns.write_experiment(out, table)):
        return campaigns.run(out, table)
    demo = load_demo_hosts()
    with demo.start_cluster(Path(sys.executable).parent, demo.SERVERS) as cluster:
        return campaigns.run(
            out, table, "--ray", cluster.address,
            prefix=cluster.inside(0), environment=cluster.environment,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One comparison of both campaigns."""

    machine: Comparison
    nodes: Comparison

    @property
    def is_equal(self) -> bool:
        """Whether both have the same verdict."""
        return self.machine.verdict == self.nodes.verdict

    @property
    def contradicts(self) -> bool:
        """Whether not both can be true."""
        if {self.machine.verdict, self.nodes.verdict} == {Verdict.HIGHER, Verdict.LOWER}:
            return True
        first, second = (side.ratio and side.ratio.interval for side in (self.machine, self.nodes))
        if not first or not second:
            return False
        return first.high < second.low or second.high < first.low

    @property
    def is_planted(self) -> bool:
        """Whether it is the difference that must be both."""
        return (self.machine.variant, self.machine.metric.measure.name) == (PLANTED, PLANTED_METRIC)


def pair_comparisons(machine: Sequence[Comparison], nodes: Sequence[Comparison]) -> list[Pair]:
    """Return the comparisons that both campaigns have."""
    by_place = {(each.variant, each.metric.key): each for each in nodes}
    return [
        Pair(machine=each, nodes=by_place[each.variant, each.metric.key])
        for each in machine
        if (each.variant, each.metric.key) in by_place
    ]


def judge_pairs(pairs: Sequence[Pair]) -> list[tuple[str, bool]]:
    """Return the targets, and whether each is met."""
    planted = [pair for pair in pairs if pair.is_planted]
    return [
        ("no verdicts contradict each other", not any(pair.contradicts for pair in pairs)),
        (
            "the planted difference has the same verdict",
            bool(planted)
            and all(p.is_equal and p.nodes.verdict == Verdict.HIGHER for p in planted),
        ),
    ]


def describe_comparison(comparison: Comparison) -> str:
    """Return a verdict with its interval."""
    ratio = comparison.ratio
    interval = f"{ratio.estimate:.4f} [{ratio.low:.4f}, {ratio.high:.4f}]" if ratio else "nothing"
    return f"{interval} {comparison.verdict}"


def describe_time(campaign: Campaign) -> str:
    """Return the minutes that a campaign took, and which share of them was in trials."""
    share, seconds = measure_share(find_spans(campaign))
    blocks = campaign.block.height + campaign.duet_block.height
    return f"{blocks} blocks in {seconds / 60:.1f} minutes, {share:.1%} of them in trials"


def find_spans(campaign: Campaign) -> list[tuple[float, float]]:
    """Return when each trial began and ended, both of a duet as one, in their order."""
    place = ["design", "block", "attempt", "position"]
    both = pl.concat([campaign.trial, campaign.duet], how="diagonal")
    spans = both.group_by(place).agg(pl.col("started").min(), pl.col("ended").max())
    return [(row["started"], row["ended"]) for row in spans.sort("started").iter_rows(named=True)]


def measure_share(spans: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return which share of the time was in trials, and the seconds that all of it took, from the
    first trial to the end of the last; pauses of an interrupted run are none of it.
    """
    gaps = [later - earlier for (_, earlier), (later, _) in itertools.pairwise(spans)]
    trials = sum(ended - began for began, ended in spans)
    seconds = trials + sum(gap for gap in gaps if gap < PAUSE)
    return (trials / seconds if seconds else 0.0), seconds


def main() -> int:
    """Run both campaigns, print, and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--design", choices=["solo", "duet", "both"], default="solo")
    parser.add_argument("--out", type=Path, default=Path("build/hosts-verdicts"))
    options = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("needs root, for the namespaces")
    table, out = make_table(options.blocks, options.design), options.out.resolve()
    both: Mapping[str, Campaign] = {
        "one machine": campaigns.run(out / "machine", table),
        "three nodes": run_on_nodes(out / "nodes", table),
    }
    for name, campaign in both.items():
        print(f"{name}: {describe_time(campaign)}")
    machine, nodes = (compare_with_baseline(each).family for each in both.values())
    pairs = pair_comparisons(machine, nodes)
    for pair in pairs:
        print(f"{pair.machine.variant}, {pair.machine.metric.title}")
        print(f"    one machine  {describe_comparison(pair.machine)}")
        print(f"    three nodes  {describe_comparison(pair.nodes)}")
    print(f"{sum(pair.is_equal for pair in pairs)} of {len(pairs)} verdicts are the same")
    targets = judge_pairs(pairs)
    for words, is_met in targets:
        print(f"target: {words}: {'met' if is_met else 'MISSED'}")
    return 0 if all(is_met for _, is_met in targets) else 1


if __name__ == "__main__":
    sys.exit(main())
