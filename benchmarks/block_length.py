"""How much a duet's blocks scatter, had they been shorter: from stored campaigns.

    python benchmarks/block_length.py DIR...

For each results directory: the standard deviation of the value of a block that is cut to its first
4, 6, 8, … 20 pairs of slices, pooled over the variants and the A/A pair. Then, over the
directories, the geometric mean of each ÷ that of 20 pairs, beside what independent slices would
give, √(20 ÷ pairs), and what the plan reckons with. It shows what few pairs cost where noise comes
in bursts. Of use are campaigns with slices of 0.2 s.
"""

import argparse
import math
import statistics
from collections import defaultdict
from pathlib import Path

from dballoc.questions.compare.campaign_tables import Campaign, load_campaign
from dballoc.questions.compare.duet_plan import Components
from dballoc.questions.compare.values import collect_pieces, read_declared_estimate
from dballoc.questions.statistics.duet_estimates import compute_block_log

PAIRS = (4, 6, 8, 10, 14, 20)
# The seconds that count of a slice, of the campaigns that the plan's figure is from.
COUNTED = 0.17


def compute_scatter(campaign: Campaign, pairs: int) -> float:
    """Return the standard deviation of a block's ln ratio, had each been cut to so many pairs."""
    estimate = read_declared_estimate(campaign)
    logs = defaultdict(list)
    for (_, _, workload), duet in collect_pieces(campaign).items():
        first = set(sorted({piece.slice for piece in duet.baseline})[: 2 * pairs])
        baseline, partner = (
            [piece for piece in side if piece.slice in first]
            for side in (duet.baseline, duet.partner)
        )
        log = compute_block_log(estimate, baseline, partner)
        if log is not None:
            logs[duet.variant, duet.role, workload].append(log)
    several = [values for values in logs.values() if len(values) > 1]
    freedom = sum(len(values) - 1 for values in several)
    squares = sum(statistics.variance(values) * (len(values) - 1) for values in several)
    return math.sqrt(squares / freedom)


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, nargs="+")
    ratios: dict[int, list[float]] = defaultdict(list)
    for directory in parser.parse_args().directory:
        campaign = load_campaign(directory)
        most = min(
            len({piece.slice for piece in duet.baseline}) // 2
            for duet in collect_pieces(campaign).values()
        )
        if most < PAIRS[-1]:
            print(f"{directory}: {most} pairs a block are too few")
            continue
        scatter = {pairs: compute_scatter(campaign, pairs) for pairs in PAIRS}
        for pairs, of_block in scatter.items():
            ratios[pairs].append(of_block / scatter[PAIRS[-1]])
        words = ", ".join(f"{pairs} pairs {each:.2%}" for pairs, each in scatter.items())
        print(f"{directory}: {words}", flush=True)
    noise = Components(start=0, slice=1, piece=0, halves=0, seconds=1)
    for pairs, each in ratios.items():
        print(
            f"{pairs:2} pairs ÷ {PAIRS[-1]}: {statistics.geometric_mean(each):.2f}; independent "
            f"{math.sqrt(PAIRS[-1] / pairs):.2f}; reckoned "
            f"{noise.block(COUNTED, pairs) / noise.block(COUNTED, PAIRS[-1]):.2f}"
        )


if __name__ == "__main__":
    main()
