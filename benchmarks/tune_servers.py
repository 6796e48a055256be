"""What dballoc tune finds on real servers, and whether it is confirmed.

    python benchmarks/tune_servers.py --out DIR [--cases myrocks,withheld,…] [--small-budget 30m]
    [--budget 2h]

Each case is a search with its confirmation, in a directory of its own; the same command resumes
what was interrupted, and prints what is over already. All cases take their budgets together, nine
and a half hours, and some minutes for data and the comparison with a preset.

myrocks     MyRocks, cache and load as small as `--scale small` makes the post's, glibc: peak RSS at
            most 0.60 of the default's, at CPU shown no worse than 1.03.
withheld    the same without the presets: the search has to find it.
jemalloc    the same server on jemalloc: at least as low as its best preset of those that keep to
            the bound. A campaign of its own compares both: what is to be run (the default, if
            nothing is confirmed) reads at most 1 % more than the preset.
read-only, read-write, rocksdb, big-sorts
            each under glibc with --budget: in three of the four, 10 % less peak RSS at CPU shown no
            worse than 1.03; where nothing is to be had, the answer says so.

No case may take more than 1.1 times its budget for trials. The exit status is 1 if one of these is
not what came out, 2 if a case could not be run, or not all that three of four needs was asked for.
"""

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dballoc.experiment import experiment_file
from dballoc.experiment.durations_and_sizes import parse_duration
from dballoc.experiment.model import Experiment
from dballoc.questions.compare.baseline_comparison import compare_with_baseline
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.tune.estimate_effects import estimate_front
from dballoc.questions.tune.figures import load_tuned
from dballoc.questions.tune.search_history import Tried, summarize_standings
from dballoc.search.search_space import Parameters, apply_parameters
from dballoc.store.results import Results

MYROCKS = ("--experiment", "smalldatum-2025-myrocks", "--scale", "small")
INNODB = ("--experiment", "demo", "--threads", "64")
MOST_OF_DEFAULT, LEAST_GAIN, GAINING = 0.60, 0.90, 3
MOST_COST, MOST_OF_PRESET, MOST_OF_BUDGET = 1.03, 1.01, 1.1
PRESET_BLOCKS = 10
INTERRUPTED = 130


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
SMALL = ("myrocks", "withheld")
FOUR = ("read-only", "read-write", "rocksdb", "big-sorts")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A ratio to the default's; ``low`` and ``high`` are None without an interval."""

    ratio: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came out: the ``answer``, and of the winner the ``settings``, its peak RSS and its CPU
    by workload: nothing without a winner. ``seconds``: that all trials took.
    """

    answer: str
    seconds: float
    settings: Mapping[str, str] | None = None
    memory: Figure | None = None
    costs: Mapping[str, Figure]

    @property
    def keeps_to_bound(self) -> bool:
        """Whether the CPU of every workload is shown to be no worse than the bound."""
        return bool(self.costs) and all(
            cost.high is not None and cost.high <= MOST_COST for cost in self.costs.values()
        )

    def saves(self, most: float) -> bool:
        """Whether the winner needs at most so much of the default's peak RSS, which is shown to be
        less, and keeps to the bound.
        """
        memory = self.memory
        shown = memory is not None and memory.high is not None and memory.high < 1
        return bool(memory and shown and memory.ratio <= most and self.keeps_to_bound)


def read_outcome(document: Mapping[str, Any], seconds: float) -> Outcome | None:
    """Read the answer of a search (tune.json); None of one that is not over."""
    if not document["over"]:
        return None
    ratios: Mapping[str, Any] = next(
        (
            f["ratios"]
            for f in document["finalists"]
            if (f["variant"], f["base"]) == (document["winner"], document["base"])
        ),
        {},
    )
    figures = {key: Figure(**figure) for key, figure in ratios.items()}
    return Outcome(
        answer=document["answer"],
        seconds=seconds,
        settings=document["settings"],
        memory=figures.get("rss_peak"),
        costs={key: f for key, f in figures.items() if key.partition(":")[0] == "cpu"},
    )


def list_complaints(
    name: str, outcome: Outcome, budget: float, against_preset: Figure | None = None
) -> list[str]:
    """Return what a case alone did not do as promised. ``against_preset``: of jemalloc, what is to
    be run as a ratio to its best preset; None if no preset kept to the bound.
    """
    complaints = []
    if outcome.seconds > MOST_OF_BUDGET * budget:
        complaints.append(f"its trials took {outcome.seconds:.0f} s of {budget:.0f}")
    if name in SMALL and not outcome.saves(MOST_OF_DEFAULT):
        complaints.append(f"not shown: peak RSS × {MOST_OF_DEFAULT} at CPU × {MOST_COST}")
    if name == "jemalloc":
        if against_preset is None:
            complaints.append("no preset ran that keeps to the bound: nothing to compare with")
        elif against_preset.ratio > MOST_OF_PRESET:
            complaints.append(f"its best preset is lower: × {against_preset.ratio:.3f} of it")
    if outcome.settings is None and not outcome.answer.startswith("Keep the defaults"):
        complaints.append("it neither confirms anything nor says that nothing is to be had")
    if outcome.settings is not None and not outcome.keeps_to_bound:
        complaints.append(f"its winner is not shown to keep to CPU × {MOST_COST}")
    return complaints


def tune(case: Case, budget: str, out: Path) -> int:
    """Run or resume a case that is not over; returns the exit status."""
    answer = out / "tune.json"
    if answer.exists() and json.loads(answer.read_text())["over"]:
        return 0
    program = [sys.executable, "-I", "-m", "dballoc", "tune", "--for", "memory"]
    words = [*program, *case.flags, "--budget", budget, "--out", str(out)]
    return subprocess.run(words, check=False).returncode


def sum_seconds(out: Path) -> float:
    """Return the seconds that all trials of a search and its confirmations took."""
    seconds = 0.0
    for path in [out, *sorted(out.glob("confirmation/*"))]:
        results = Results.open(path, read_only=True)
        try:
            seconds += results.spent()
        finally:
            results.close()
    return seconds


def find_best_preset(tried: Sequence[Tried]) -> Parameters | None:
    """Return that preset of those that are likely to keep to the bound which is likely to need
    least memory; None if there is none.
    """
    presets = {t.variant for t in tried if t.origin == "preset" and t.stage == "server"}
    estimates = [
        e
        for e in estimate_front(summarize_standings(tried, "server"))
        if e.standing.variant in presets and e.cost.mean <= math.log(MOST_COST)
    ]
    best = min(estimates, key=lambda e: e.memory.mean, default=None)
    return best.standing.parameters if best else None


def make_preset_experiment(
    searched: Experiment, preset: Parameters, winner: Parameters
) -> Experiment:
    """Return the experiment that compares what is to be run with a preset, in memory."""
    default = searched.find(searched.baseline)
    return searched.model_copy(
        update={
            "name": "against-preset",
            "baseline": "preset",
            "variant": [
                apply_parameters(default, preset, "preset"),
                apply_parameters(default, winner, "winner"),
            ],
            "design": "solo",
            "blocks": PRESET_BLOCKS,
            "budget": None,
            "record": None,
            "tune": None,
        }
    )


def compare_with_preset(out: Path, winner: Parameters) -> tuple[int, Figure | None]:
    """Run or resume the campaign of what is to be run against the best preset; returns its exit
    status, and the peak RSS as a ratio to the preset's.
    """
    tuned = load_tuned(out)
    preset = find_best_preset(tuned.tried)
    if preset is None:
        return 0, None
    if dict(preset) == dict(winner):
        return 0, Figure(ratio=1.0, low=1.0, high=1.0)
    directory, file = out / "against-preset", out / "against-preset.toml"
    chosen = make_preset_experiment(tuned.campaign.experiment, preset, winner)
    file.write_text(experiment_file.format_experiment(chosen))
    words = [sys.executable, "-I", "-m", "dballoc", "bench", str(file), "--out", str(directory)]
    if status := subprocess.run(words, check=False).returncode:
        return status, None
    comparisons = compare_with_baseline(load_campaign(directory))
    [ratio] = [
        c.ratio
        for c in comparisons.family
        if (c.variant, c.metric.key) == ("winner", "rss_peak") and c.ratio
    ]
    return 0, Figure(ratio=ratio.estimate, low=ratio.low, high=ratio.high)


def run_case(name: str, budget: str, out: Path) -> tuple[int, Outcome | None, list[str]]:
    """Run or resume a case with what it is held against; returns the exit status, what came out,
    and what was not as promised.
    """
    if status := tune(CASES[name], budget, out):
        return status, None, []
    outcome = read_outcome(json.loads((out / "tune.json").read_text()), sum_seconds(out))
    if outcome is None:
        return INTERRUPTED, None, []
    against_preset = None
    if name == "jemalloc":
        status, against_preset = compare_with_preset(out, outcome.settings or {})
        if status:
            return status, None, []
    return 0, outcome, list_complaints(name, outcome, parse_duration(budget), against_preset)


def format_outcome(outcome: Outcome) -> str:
    """Return the winner's intervals."""
    figures = {"peak RSS": outcome.memory, **{f"CPU {k}": f for k, f in outcome.costs.items()}}
    return "; ".join(
        f"{title} × {f.ratio:.3f}" + (f" [{f.low:.3f}, {f.high:.3f}]" if f.low and f.high else "")
        for title, f in figures.items()
        if f
    )


def judge_four(outcomes: Mapping[str, Outcome]) -> bool | None:
    """Print in how many of the four a tenth is saved; returns whether that is enough, None if not
    all four have run.
    """
    if not set(FOUR) <= set(outcomes):
        return None
    gaining = [name for name in FOUR if outcomes[name].saves(LEAST_GAIN)]
    print(f"at least 10 % less in {len(gaining)} of 4: {', '.join(gaining) or 'none'}")
    return len(gaining) >= GAINING


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
    complaints: list[str] = []
    outcomes: dict[str, Outcome] = {}
    chosen = options.cases.split(",")
    for name in chosen:
        budget = options.small_budget if CASES[name].is_short else options.budget
        status, outcome, missed = run_case(name, budget, options.out / name)
        if status == INTERRUPTED:
            return 2
        if outcome is None:
            print(f"{name}: NOT RUN, exit status {status}", flush=True)
            continue
        outcomes[name] = outcome
        print(f"{name}: {outcome.answer}; {format_outcome(outcome)}", flush=True)
        for complaint in missed:
            print(f"{name}: MISSED: {complaint}", flush=True)
        complaints += missed
    enough = judge_four(outcomes)
    if complaints or enough is False:
        return 1
    unfinished = enough is None and any(name in FOUR for name in chosen)
    return 2 if unfinished or len(outcomes) < len(chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
