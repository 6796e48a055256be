"""The CPU time of dballoc itself beside the load, and how it grows with the server's threads.

    python benchmarks/own_cpu.py [--threads 1,16,256] [--seconds 8] [--keep DIR]

Runs a campaign of one block for each number of threads, solo, duet and turns, of two variants with
the same malloc. Prints what results.sqlite has of it (table ``host_step``): the CPU time of all of
dballoc's processes, the main one, its guardian and what it waited for, of all CPUs, of one CPU, and
of one CPU by thread of a server that has a client. A duet's two servers have as many threads each.

The load is point selects on tables in memory, so a thread is runnable whenever its client is not.
With more threads than CPUs few of them run at a time. What dballoc does for a thread does not
depend on that; a machine with a CPU for each thread has more CPUs to read of, and other caches.

The exit status is 1 if, beside 16 threads, a design takes more than 0.3 % of one CPU a thread.
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
DESIGNS = ("solo", "duet", "turns")

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
    for design in DESIGNS:
        out = directory / design
        program = Path(sys.executable).with_name("dballoc")
        command = shlex.join(map(str, (program, "bench", file, "--design", design, "--out", out)))
        # On a terminal, as users run it: what it shows there is part of what it costs.
        terminal = ["script", "-qec", command, str(directory / f"{design}.log")]
        env = os.environ | {"TERM": "xterm-256color"}
        quiet = subprocess.DEVNULL
        if subprocess.run(terminal, env=env, stdin=quiet, stdout=quiet, timeout=600).returncode:
            sys.exit(f"dballoc bench failed: {terminal[-1]}")
    return pl.concat([compute_own_cpu(load_campaign(directory / d)) for d in DESIGNS])


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
    print("design  threads   of all CPUs   of one CPU   of one CPU, a thread")
    with tempfile.TemporaryDirectory() as scratch:
        for threads in map(int, asked.threads.split(",")):
            rows = measure(threads, asked.seconds, (asked.keep or Path(scratch)) / str(threads))
            for row in rows.iter_rows(named=True):
                shares = (percent(row[name], 3) for name in ("of_machine", "of_cpu", "each"))
                print(f"{row['design']:<6}{row['clients']:>9}", *map("{:>14}".format, shares))
                if threads == BESIDE:
                    worst = max(worst, row["each"])
    met = "met" if worst <= MOST else "MISSED"
    print(f"most beside {BESIDE} threads: {percent(worst, 3)} (at most {percent(MOST, 1)}: {met})")
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
