"""The CPU time of dballoc itself in a campaign: this program and an older one, by turns.

    python benchmarks/own_cpu.py --old DIR [--pairs 3] [--budget 3m]

DIR is another work tree in which ``make setup`` was run. A pair is a campaign (``dballoc bench``
with its report) of each, in an order drawn by chance. Printed are each one's CPU seconds, user and
system, of the process dballoc alone, without its guardian, the servers and the clients, and its
share of the campaign's time; then the ratio of these shares, new ÷ old, as the geometric mean over
pairs. Exit status 1 if it is above 1.05.
"""

import argparse
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
MOST = 1.05


def measure_share(tree: Path, budget: str) -> float:
    """Run a campaign, and return dballoc's CPU seconds for each second of it."""
    with tempfile.TemporaryDirectory() as out:
        began, ticks = time.monotonic(), 0
        process = subprocess.Popen(
            [tree / ".venv/bin/dballoc", "bench", "--budget", budget, "--out", f"{out}/results"],
            cwd=tree,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        stat = Path(f"/proc/{process.pid}/stat")
        while process.poll() is None:
            # user and system, the 14th and 15th field (proc_pid_stat(5))
            fields = stat.read_text().rpartition(")")[2].split()
            ticks = max(ticks, int(fields[11]) + int(fields[12]))
            time.sleep(0.05)
        if process.returncode:
            sys.exit(f"{tree}: dballoc bench ended with {process.returncode}")
        seconds = ticks / os.sysconf("SC_CLK_TCK")
        share = seconds / (time.monotonic() - began)
        print(f"{tree.name}: {seconds:.1f} s of CPU, {share:.1%} of the time", flush=True)
        return share


def main() -> None:
    """Measure both by turns, and print the ratio."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--old", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--budget", default="3m")
    asked = parser.parse_args()
    logs = []
    for _ in range(asked.pairs):
        shares = {}
        for tree in random.sample([HERE, asked.old.resolve()], 2):
            shares[tree] = measure_share(tree, asked.budget)
        logs.append(math.log(shares[HERE] / shares[asked.old.resolve()]))
    ratio = math.exp(statistics.fmean(logs))
    print(f"new ÷ old: {ratio:.3f} (pairs: {', '.join(f'{math.exp(log):.3f}' for log in logs)})")
    sys.exit(ratio > MOST)


if __name__ == "__main__":
    main()
