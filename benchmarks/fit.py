"""How many trials `dballoc fit` took, beside what a plain bisection of the same range takes.

    python benchmarks/fit.py DIR

A plain bisection needs log2 of the number of sizes, rounded up, and the repeats of its answer. The
exit status is 1 if the searches that are over took more than that in all.
"""

import math
import sys
from pathlib import Path

from dballoc.questions.fit import figures


def main() -> int:
    """Read the store and print."""
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    found = figures.load_fits(Path(sys.argv[1]))
    plain = math.ceil(math.log2(found.of.steps + 1)) + found.of.repeats - 1
    taken = allowed = 0
    print(
        f"{found.of.steps} sizes up to {found.of.memory >> 20} MiB; a plain bisection takes "
        f"{plain} trials"
    )
    for one in found.fitted:
        sizes = [
            f"{p.requested >> 20}{'' if p.outcome == 'survived' else '!'}"
            for p in found.probes
            if p.variant == one.variant
        ]
        print(f"{one.trials:3} trials  {one.variant}: {' '.join(sizes)} (MiB; !: killed)")
        if one.state.next is None:
            taken, allowed = taken + one.trials, allowed + plain
    if not allowed:
        print("no search is over yet")
        return 2
    met = taken <= allowed
    print(f"{taken} trials in all, a plain bisection {allowed}: {'met' if met else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
