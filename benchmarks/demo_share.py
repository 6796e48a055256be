"""How much of a campaign's wall time was spent measuring, warming up or idling on purpose.

    python benchmarks/demo_share.py DIR

The rest is making data, copying it, starting, stopping, and the noise probe. A campaign that was
interrupted and resumed counts its pause as wall time. The exit status is 1 if the target of 60 % is
missed.
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from dballoc.store.open_database import FILE
from dballoc.store.results import Results

TARGET = 0.60


def main() -> int:
    """Read the store and print."""
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    results = Results.open(Path(sys.argv[1]), read_only=True)
    began = float(results.facts()["started"])
    results.close()
    database = (Path(sys.argv[1]) / FILE).resolve().as_uri()
    with closing(sqlite3.connect(f"{database}?mode=ro", uri=True)) as connection:
        trials, planned, in_trials, last = connection.execute(
            "SELECT count(*), sum(seconds_planned), sum(ended - started), max(ended) FROM trial"
        ).fetchone()
    if not trials:
        print("no trial yet")
        return 2
    wall = last - began
    print(f"{trials} trials in {wall:.0f} s of wall time")
    print(f"{planned:6.0f} s  {planned / wall:6.1%}  measuring, warming up or idling on purpose")
    for seconds, what in (
        (in_trials - planned, "else within trials: copying data, start, proof, SQL, stop"),
        (wall - in_trials, "between trials: making data, the noise probe, the look at the results"),
    ):
        print(f"{seconds:6.0f} s  {seconds / wall:6.1%}  {what}")
    met = planned / wall >= TARGET
    print(f"target: at least {TARGET:.0%}: {'met' if met else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
