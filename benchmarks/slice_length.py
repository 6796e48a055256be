"""What shorter slices give a duet, and whether they change what it finds.

    python benchmarks/slice_length.py [--part scatter|swap] [--rounds N] [--out DIR]

scatter  glibc beside itself, by turns with slices of 0.1 and of 0.2 s, in blocks of 8 s: how much a
         block scatters with each
swap     glibc beside the allocators of the system, by turns with slices of 0.1 s and of 0.4 s. An
         allocator that keeps caches for a CPU pays for each swap of the halves, and shorter slices
         would show more of that: the ratio with the one ÷ the ratio with the other

Every campaign's directory is kept below DIR, and an interrupted run goes on where it stopped. The
machine must be quiet.
"""

import argparse
import math
import random
import statistics
from pathlib import Path
from typing import Any

from campaigns import run
from duet import experiment
from scipy.special import stdtrit

from dballoc.questions.compare.baseline_comparison import collect_logs, list_metrics
from dballoc.questions.compare.campaign_tables import Campaign

BLOCKS = 7
# Of each length: the pairs of slices in a block, of which the first part of a slice is left out.
SHORT = {"slice": "100ms", "discard": "30ms", "pairs": 40}
MIDDLE = {"slice": "200ms", "discard": "30ms", "pairs": 20}
LONG = {"slice": "400ms", "discard": "100ms", "pairs": 10}
LENGTHS = {"scatter": (SHORT, MIDDLE), "swap": (SHORT, LONG)}
VARIANTS = {
    "scatter": ["glibc"],
    "swap": ["glibc", "jemalloc", "tcmalloc", "mimalloc", "tbbmalloc"],
}


def run_campaign(out: Path, part: str, duet: dict[str, Any], seed: int) -> Campaign:
    """Run a campaign with these slices."""
    table = experiment(
        f"{part}-{duet['slice']}-{seed}",
        [{"name": name} for name in VARIANTS[part]],
        design="duet",
        duet={"threads": 4, **duet},
        blocks=BLOCKS,
        seed=seed,
    )
    return run(out / str(table["name"]), table)


def compute_geometric_mean(ratios: list[float]) -> tuple[float, float, float]:
    """Return the geometric mean and the ends of its 95 % t interval; an open interval for one."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(mean), 0.0, math.inf
    half = float(stdtrit(len(logs) - 1, 0.975)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def main() -> None:
    """Run the parts asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=list(LENGTHS), action="append")
    parser.add_argument("--rounds", type=int, default=4, help="campaigns with each length")
    parser.add_argument("--out", type=Path, default=Path("dballoc-results/benchmark-slices"))
    args = parser.parse_args()
    for part in args.part or LENGTHS:
        compare_lengths(args.out.absolute(), part, args.rounds)


def compare_lengths(out: Path, part: str, rounds: int) -> None:
    """Run a part's campaigns by turns, and print what each length shows."""
    logs: dict[str, list[dict[str, list[float]]]] = {}
    for seed in range(1, rounds + 1):
        for duet in random.Random(seed).sample(LENGTHS[part], 2):
            campaign = run_campaign(out, part, duet, seed)
            [metric] = list_metrics(campaign)
            by_variant = collect_logs(campaign, metric)
            logs.setdefault(str(duet["slice"]), []).append(by_variant)
            words = ", ".join(
                f"{name} {math.exp(statistics.fmean(each)):.4f} ± {statistics.stdev(each):.2%}"
                for name, each in by_variant.items()
            )
            print(f"slices of {duet['slice']}, seed {seed}: a block's ratio: {words}", flush=True)
    short, other = (logs[str(duet["slice"])] for duet in LENGTHS[part])
    names = [str(duet["slice"]) for duet in LENGTHS[part]]
    if part == "scatter":
        ratios = [
            statistics.stdev(a["glibc"]) / statistics.stdev(b["glibc"])
            for a, b in zip(short, other, strict=True)
        ]
        print(f"scatter with {names[0]} ÷ with {names[1]}: {describe(ratios)}")
        return
    for name in VARIANTS[part][1:]:
        ratios = [
            math.exp(statistics.fmean(a[name]) - statistics.fmean(b[name]))
            for a, b in zip(short, other, strict=True)
        ]
        print(f"{name}: ratio with {names[0]} ÷ with {names[1]}: {describe(ratios)}")


def describe(ratios: list[float]) -> str:
    """Return their geometric mean with its 95 % interval, as ``0.412 [0.301, 0.564]``."""
    return "{:.3f} [{:.3f}, {:.3f}]".format(*compute_geometric_mean(ratios))


if __name__ == "__main__":
    main()
