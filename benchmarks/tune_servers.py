"""What dballoc tune finds on real servers, and whether it is confirmed.

    python benchmarks/tune_servers.py --out DIR [--cases myrocks,withheld,…] [--small-budget 30m]
    [--budget 2h]

Each case is a search with its confirmation, in a directory of its own; the same command resumes
what was interrupted, and prints what is over already.

myrocks     MyRocks, cache and load as small as `--scale small` makes the post's, glibc: peak RSS at
            most 0.60 of the default's, at CPU shown no worse than 1.03.
withheld    the same without the presets: the search has to find it.
jemalloc    the same server on jemalloc: at least as low as its best preset's trials.
read-only, read-write, rocksdb, big-sorts
            each under glibc with --budget: in three of the four, 10 % less peak RSS at CPU shown no
            worse than 1.03; where nothing is to be had, the answer says so.

The exit status is 1 if one of these is not what came out, 2 if not all has run.
"""

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dballoc.analysis.tune.search_history import load_tried, summarize_standings

MYROCKS = ("--experiment", "smalldatum-2025-myrocks", "--scale", "small")
INNODB = ("--experiment", "demo", "--threads", "64")
MOST_OF_DEFAULT, LEAST_GAIN, GAINING = 0.60, 0.90, 3


@dataclass(frozen=True, kw_only=True)
class Case:
    """A search: its ``flags``, and whether it has the short budget."""

    flags: Sequence[str]
    is_short: bool = False


CASES = {
    "myrocks": Case(flags=(*MYROCKS, "--allocators", "glibc"), is_short=True),
    "withheld": Case(flags=(*MYROCKS, "--allocators", "glibc", "--no-presets"), is_short=True),
    "jemalloc": Case(flags=(*MYROCKS, "--allocators", "jemalloc"), is_short=True),
    "read-only": Case(flags=(*INNODB, "--workloads", "oltp_read_only", "--allocators", "glibc")),
    "read-write": Case(flags=(*INNODB, "--workloads", "oltp_read_write", "--allocators", "glibc")),
    "rocksdb": Case(flags=(*MYROCKS, "--allocators", "glibc")),
    "big-sorts": Case(flags=(*INNODB, "--workloads", "big-sorts", "--allocators", "glibc")),
}
FOUR = ("read-only", "read-write", "rocksdb", "big-sorts")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came out: the ``answer``, and of the winner ``memory`` and ``cost`` as ratio, low and
    high; None without a winner.
    """

    answer: str
    memory: tuple[float, float, float] | None
    cost: tuple[float, float, float] | None


def tune(case: Case, budget: str, out: Path) -> Outcome | None:
    """Run or resume a case; None if it was interrupted."""
    answer = out / "tune.json"
    if not answer.exists() or not json.loads(answer.read_text())["over"]:
        program = [sys.executable, "-m", "dballoc", "tune", "--for", "memory"]
        words = [*program, *case.flags, "--budget", budget, "--out", str(out)]
        if subprocess.run(words, check=False).returncode != 0:
            return None
    return read_outcome(answer)


def read_outcome(path: Path) -> Outcome | None:
    """Read the answer of a search; None of one that is not over."""
    document = json.loads(path.read_text())
    if not document["over"]:
        return None
    confirmed = [f["ratios"] for f in document["finalists"] if f["confirmed"]]
    by_measure: dict[str, Any] = {
        key.partition(":")[0]: tuple(figures.values())
        for ratios in confirmed[:1]
        for key, figures in ratios.items()
    }
    return Outcome(
        answer=document["answer"],
        memory=by_measure.get("rss_peak"),
        cost=by_measure.get("cpu"),
    )


def find_best_preset(directory: Path) -> float | None:
    """Return the least peak RSS of a preset's trials on servers, as a ratio to the default's."""
    tried = load_tried(directory)
    presets = {t.variant for t in tried if t.origin == "preset" and t.stage == "server"}
    memories = [
        s.memory
        for s in summarize_standings(tried, "server")
        if s.variant in presets and s.memory is not None
    ]
    return math.exp(min(memories)) if memories else None


def format_outcome(outcome: Outcome) -> str:
    """Return the winner's intervals."""
    return "; ".join(
        f"{title} × {ratio:.3f} [{low:.3f}, {high:.3f}]"
        for title, figures in (("peak RSS", outcome.memory), ("CPU", outcome.cost))
        if figures
        for ratio, low, high in [figures]
    )


def is_met(name: str, outcome: Outcome, directory: Path) -> bool:
    """Whether a case alone came out as promised, and print what it is held against."""
    memory = outcome.memory[0] if outcome.memory else 1.0
    if name == "jemalloc":
        preset = find_best_preset(directory)
        print(f"  its best preset's trials: × {preset:.3f}" if preset else "  no preset ran")
        return preset is None or memory <= preset or (preset >= 1 and memory <= 1)
    if name in FOUR:
        return True
    return memory <= MOST_OF_DEFAULT


def main() -> int:
    """Run the cases, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--small-budget", default="30m")
    parser.add_argument("--budget", default="2h")
    options = parser.parse_args()
    met = True
    outcomes = {}
    for name in options.cases.split(","):
        case, directory = CASES[name], options.out / name
        budget = options.small_budget if case.is_short else options.budget
        outcome = tune(case, budget, directory)
        if outcome is None:
            return 2
        outcomes[name] = outcome
        print(f"{name}: {outcome.answer}; {format_outcome(outcome)}", flush=True)
        if not is_met(name, outcome, directory):
            print(f"{name}: MISSED")
            met = False
    if set(FOUR) <= set(outcomes):
        gaining = [n for n in FOUR if (m := outcomes[n].memory) and m[0] <= LEAST_GAIN]
        print(f"at least 10 % less in {len(gaining)} of 4: {', '.join(gaining) or 'none'}")
        met &= len(gaining) >= GAINING
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
