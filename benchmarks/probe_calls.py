"""What the heap probe adds to each malloc and free that it does not sample, and what that is of a
server's transaction.

    python benchmarks/probe_calls.py [--rounds 40] [--pairs 5000000] [--out DIR]

A program of one thread (tests/native/calls.c) is run without the probe, with one that is loaded but
idle, and with one that samples every 512 KiB, one after another in random order, so many rounds;
what is printed are the means of the differences within the rounds, with 95 % intervals. Then how
many calls a transaction of MariaDB's oltp_read_only makes, and how much CPU time it takes, by a
campaign kept below DIR. benchmarks/probe.py measures the whole on a server, samples included; this
resolves what is too small for that: promised is at most 0.5 % for an idle probe.
"""

import argparse
import random
import statistics
import subprocess
import tempfile
from pathlib import Path

from campaigns import run
from scipy import stats

from dballoc.instruments.ways_in.preload import find_library
from dballoc.instruments.ways_in.preload_socket import HEAP_PROBE
from dballoc.profile.heap import probe_client
from dballoc.questions.campaign.figures import profiles

SOURCE = Path(__file__).parent.parent / "tests" / "native" / "calls.c"
PROMISED = 0.005
INTERVALS = {"without": None, "idle": 0, "512 KiB": 512 << 10}


def nanoseconds(program: Path, pairs: int, interval: int | None, sockets: Path) -> float:
    """Of CPU time for a malloc and a free."""
    env = (
        {
            "LD_PRELOAD": str(find_library(HEAP_PROBE)),
            probe_client.VARIABLE: f"{interval}:{sockets}",
        }
        if interval is not None
        else {}
    )
    return float(
        subprocess.run(
            [program, str(pairs)], env=env, check=True, capture_output=True, text=True
        ).stdout
    )


def calls(rounds: int, pairs: int) -> float:
    """Prints what a pair of calls takes; the upper end of what an idle probe adds to it, in
    nanoseconds.
    """
    found: dict[str, list[float]] = {name: [] for name in INTERVALS}
    with tempfile.TemporaryDirectory(prefix="dbc-") as made:
        program = Path(made) / "calls"
        subprocess.run(
            [
                "cc",
                "-std=c17",
                "-D_GNU_SOURCE",
                "-O2",
                "-fno-builtin-malloc",
                "-o",
                program,
                SOURCE,
            ],
            check=True,
        )
        for _ in range(rounds):
            for name in random.sample(list(INTERVALS), len(INTERVALS)):
                found[name].append(nanoseconds(program, pairs, INTERVALS[name], Path(made)))
    print(
        f"without: {statistics.median(found['without']):.2f} ns for a malloc and a free, the "
        f"median of {rounds}"
    )
    most: dict[str, float] = {}
    for name in ("512 KiB", "idle"):
        more = [a - b for a, b in zip(found[name], found["without"], strict=True)]
        mean, error = statistics.fmean(more), statistics.stdev(more) / rounds**0.5
        half = float(stats.t.ppf(0.975, rounds - 1)) * error
        most[name] = mean + half
        print(f"{name}: {mean:+.2f} ns [{mean - half:+.2f}, {mean + half:+.2f}]", flush=True)
    return most["idle"]


def transaction(out: Path) -> tuple[float, float]:
    """Pairs of calls, and nanoseconds of the server's CPU, that a transaction takes."""
    table = {
        "name": "calls",
        "design": "solo",
        "baseline": "glibc",
        "workloads": ["oltp_read_only"],
        "threads": [4],
        "blocks": 1,
        "profile": "heap",
        "server": {"options": {"innodb_buffer_pool_size": "128M"}},
        "data": {"tables": 4, "rows": 50_000},
        "time": {"warmup": "2s", "level": "10s", "idle": "0s"},
        "variant": [{"name": "glibc"}],
    }
    campaign = run(out, table, "--no-report")
    found = profiles.load_heap_profiles(out, campaign)
    assert found
    [seen] = found.profiles
    assert seen.profile, seen.missing
    levels = campaign.step.filter(campaign.step["kind"] == "level").to_dicts()
    mallocs = (
        sum(row["calls"] for row in seen.figures["sizes"] if row["operation"] == "malloc")
        / seen.figures["seconds"]
    )
    pairs = mallocs / statistics.fmean(level["tps"] for level in levels)
    return pairs, statistics.fmean(level["cpu"] / level["events"] for level in levels) * 1e9


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--out", type=Path, default=Path("dballoc-results/benchmark-probe-calls"))
    args = parser.parse_args()
    most = calls(args.rounds, args.pairs)
    pairs, cpu = transaction(args.out.absolute())
    share = most * pairs / cpu
    said = "kept" if share <= PROMISED else "missed"
    print(
        f"oltp_read_only: {pairs:,.0f} mallocs and {cpu / 1000:,.0f} µs of the server's CPU a "
        "transaction"
    )
    print(f"idle: at most {share:.3%} of the server's CPU; promised {PROMISED:.1%}: {said}")


if __name__ == "__main__":
    main()
