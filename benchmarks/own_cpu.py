"""The CPU time of dballoc itself beside the load, and how it grows with the server's threads.

    python benchmarks/own_cpu.py [--threads 1,16,256] [--seconds 8] [--keep DIR]

Runs a campaign of one block for each number of threads, solo, duet and turns, of two variants with
the same malloc. Prints what results.sqlite has of it (table ``host_step``): the CPU time of all of
dballoc's processes, the main one, its guardian and what it waited for, of all CPUs and of one CPU;
then of one CPU had each slice of a duet taken its 0.2 s, and each turn its 0.5 s, and the same by
thread of a server that has a client. A duet's two servers have as many threads each.

The load is point selects on tables in memory, so a thread is runnable whenever its client is not.
With more threads than CPUs few of them run at a time, and slices and turns take longer, because
dballoc itself waits for a CPU: hence the figure at the planned pace. What dballoc does for a thread
does not depend on that; a machine with a CPU for each thread has more CPUs to read of, and other
caches.

The exit status is 1 if, beside 16 threads, a design takes more than 0.3 % of one CPU a thread at
the planned pace.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

from dballoc.ground.numbers import percent
from dballoc.questions.campaign.figures.trial_tables import compute_own_cpu
from dballoc.questions.compare.campaign_tables import load_campaign

MOST, BESIDE = 0.003, 16
# Seconds of a second, a slice, a turn.
LENGTHS = {"solo": 1.0, "duet": 0.2, "turns": 0.5}

EXPERIMENT = """
name = "own-cpu"
baseline = "glibc"
workloads = ["oltp_point_select"]
threads = [{threads}]
blocks = 1
warmup_sql = []

[server]
use = "mariadb"

[data]
tables = 1
rows = 10000

[time]
warmup = "1s"
level = "{seconds}s"
idle = "0s"

[duet]
threads = {threads}
slice = "200ms"
pairs = {pairs}

[turns]
rounds = {seconds}
length = "500ms"
warmup = "0s"

[noise]
repeats = 0

[[variant]]
name = "glibc"
allocator = "glibc"

[[variant]]
name = "again"
allocator = "glibc"
"""


def measure(threads: int, seconds: int, directory: Path) -> pl.DataFrame:
    """Run a campaign in a new directory, and return dballoc's CPU time by design."""
    directory.mkdir(parents=True)
    file = directory / "own-cpu.toml"
    pairs = max(2, round(seconds / 0.4))
    file.write_text(EXPERIMENT.format(threads=threads, seconds=seconds, pairs=pairs))
    for design in LENGTHS:
        out = directory / design
        program = Path(sys.executable).with_name("dballoc")
        command = shlex.join(map(str, (program, "bench", file, "--design", design, "--out", out)))
        # On a terminal, as users run it: what it shows there is part of what it costs.
        terminal = ["script", "-qec", command, str(directory / f"{design}.log")]
        env = os.environ | {"TERM": "xterm-256color"}
        quiet = subprocess.DEVNULL
        if subprocess.run(terminal, env=env, stdin=quiet, stdout=quiet, timeout=600).returncode:
            sys.exit(f"dballoc bench failed: {terminal[-1]}")
    return pl.concat([read_own_cpu(directory / design) for design in LENGTHS])


def read_own_cpu(results: Path) -> pl.DataFrame:
    """Return dballoc's CPU time in a campaign of one design, with ``paced``: of one CPU, had all
    slices or turns taken the time that they should.
    """
    campaign = load_campaign(results)
    rows = compute_own_cpu(campaign)
    design = rows["design"][0]
    # The servers of a duet, or of turns, share what is in the row of each.
    shared = campaign.trials.select("trial", "directory").join(campaign.host_step, on="trial")
    seconds = float(shared.unique(["directory", "step"])["seconds"].sum())
    slices = campaign.slice.join(campaign.trials, on="trial").select("directory", "slice")
    pieces = {"duet": slices.n_unique(), "turns": campaign.turn.height}.get(design, seconds)
    stretch = max(1.0, seconds / (pieces * LENGTHS[design]))
    return rows.with_columns(paced=pl.col("of_cpu") * stretch, each=pl.col("each") * stretch)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", default="1,16,256")
    parser.add_argument("--seconds", type=int, default=8, help="of load in each design")
    parser.add_argument("--keep", type=Path, help="keep the results directories here")
    asked = parser.parse_args()
    worst = 0.0
    print("design  threads   of all CPUs    of one CPU   at its pace      a thread")
    with tempfile.TemporaryDirectory() as scratch:
        for threads in map(int, asked.threads.split(",")):
            rows = measure(threads, asked.seconds, (asked.keep or Path(scratch)) / str(threads))
            for row in rows.iter_rows(named=True):
                shares = (
                    percent(row[name], 3) for name in ("of_machine", "of_cpu", "paced", "each")
                )
                print(f"{row['design']:<6}{row['clients']:>9}", *map("{:>14}".format, shares))
                if threads == BESIDE:
                    worst = max(worst, row["each"])
    met = "met" if worst <= MOST else "MISSED"
    print(f"most beside {BESIDE} threads: {percent(worst, 3)} (at most {percent(MOST, 1)}: {met})")
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
