"""What ten minutes decide: the demo of this program and of an older one, by turns.

    python benchmarks/demo_pairs.py --old DIR [--pairs 4] [--seed 1] [--noisy] [--out DIR]

DIR is another work tree in which ``make setup`` was run. A pair is a demo (``dballoc bench``) of
each, in an order drawn from the seed. ``--noisy`` runs benchmarks/cpu_hog.py beside every demo,
with the same seed for both of a pair. Printed are each demo's minutes, half-widths of CPU per
transaction and peak RSS, differences shown, and slice scatter; then the CPU half-width, new ÷ old,
as the geometric mean over pairs with its 95 % interval, and what this program's demos reach of the
targets. Demos that are done are kept below --out, and an interrupted run goes on where it stopped;
a demo that was cut is begun again, as its minutes and its hour would be those of two. Without
``--noisy`` an hour counts as noisy if slices scatter by 10 % or more. Only a demo of both programs
makes a pair. Without ``--old`` this program's demos run alone. The exit status is 1 where a target
is missed.
"""

import argparse
import contextlib
import json
import math
import random
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from campaigns import NOISY, find_slice_scatter
from cpu_hog import noisy_machine
from scipy.special import stdtrit

from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.store.facts import FINAL_ENDINGS

HERE = Path(__file__).resolve().parents[1]
# Targets: the CPU half-width, new ÷ old; and of each demo of this program its minutes, the widest
# half-width of CPU, and how wide peak RSS may be where it is not decided, for how many variants.
MOST_RATIO, MOST_MINUTES = 0.4, 10.0
MOST_CPU = {"quiet": 0.01, "noisy": 0.04}
MOST_RSS, RSS_SHARE = 0.03, 0.75


@dataclass(frozen=True, kw_only=True)
class Demo:
    """A demo's figures. Half-widths are of ln ratio; ``cpu`` and ``rss`` hold one a variant;
    ``rss_decided``: whether peak RSS is shown to differ, for each.
    """

    minutes: float
    cpu: list[float]
    rss: list[float]
    rss_decided: list[bool]
    decided: int
    slice_scatter: float | None


def run_demo(tree: Path, out: Path, seed: int | None) -> Demo:
    """Run the demo of that work tree's program, unless it was. ``seed``: of the noise, if any."""
    if not is_finished(out):
        shutil.rmtree(out, ignore_errors=True)
        noise = noisy_machine(seed) if seed is not None else contextlib.nullcontext()
        with noise:
            command: list[str | Path] = [tree / ".venv/bin/dballoc", "bench", "--out", out]
            subprocess.run(command, check=True, cwd=tree, stdout=subprocess.DEVNULL)
    return read_demo(out)


def is_finished(out: Path) -> bool:
    """Whether a demo has come to its own end; an interrupted one has a recommendation too."""
    path = out / "recommendation.json"
    return path.exists() and json.loads(path.read_text())["ending"] in FINAL_ENDINGS


def read_demo(out: Path) -> Demo:
    """Read what a demo has decided, from its recommendation and its store."""
    answer = json.loads((out / "recommendation.json").read_text())
    figures = [figure for candidate in answer["candidates"] for figure in candidate["figures"]]
    by_metric: dict[str, list[float]] = {"cpu": [], "rss_peak": []}
    decided, rss_decided = 0, []
    for figure in figures:
        is_shown = bool(figure["low"]) and not figure["low"] <= 1 <= figure["high"]
        # What is descriptive has no verdict.
        decided += is_shown and figure["verdict"] is not None
        if figure["metric"] in by_metric and figure["low"]:
            by_metric[figure["metric"]].append(math.log(figure["high"] / figure["low"]) / 2)
            if figure["metric"] == "rss_peak":
                rss_decided.append(is_shown)
    campaign = load_campaign(out)
    ended = campaign.trials["ended"].max()
    assert isinstance(ended, float)
    return Demo(
        minutes=(ended - campaign.facts.started) / 60,
        cpu=by_metric["cpu"],
        rss=by_metric["rss_peak"],
        rss_decided=rss_decided,
        decided=decided,
        slice_scatter=find_slice_scatter(campaign),
    )


def describe(name: str, demo: Demo) -> str:
    """One line on a demo."""
    widths = (
        f"{what} ±{', ±'.join(f'{half:.1%}' for half in halves) or '?'}"
        for what, halves in (("CPU", demo.cpu), ("peak RSS", demo.rss))
    )
    scatter = "" if demo.slice_scatter is None else f"; slices scatter by {demo.slice_scatter:.1%}"
    return (
        f"{name:8} {demo.minutes:5.1f} min  {'; '.join(widths)}; {demo.decided} differences shown"
        f"{scatter}"
    )


def compute_geometric_mean(ratios: list[float]) -> tuple[float, float, float]:
    """Return the geometric mean and the ends of its 95 % t interval; an open interval for one."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(mean), 0.0, math.inf
    half = float(stdtrit(len(logs) - 1, 0.975)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def judge_demo(demo: Demo, *, has_hog: bool) -> list[tuple[str, bool]]:
    """Return what a demo of this program is to reach in its hour, and whether it does."""
    is_noisy = has_hog or (demo.slice_scatter or 0.0) >= NOISY
    hour = "noisy" if is_noisy else "quiet"
    good = [
        is_decided or half <= MOST_RSS
        for half, is_decided in zip(demo.rss, demo.rss_decided, strict=True)
    ]
    widest = MOST_CPU[hour]
    return [
        (f"at most {MOST_MINUTES:g} minutes", demo.minutes <= MOST_MINUTES),
        (
            f"peak RSS decided or within ±{MOST_RSS:.0%} for {RSS_SHARE:.0%} of the variants",
            bool(good) and statistics.fmean(good) >= RSS_SHARE,
        ),
        (
            f"CPU within ±{widest:.0%} in a {hour} hour",
            bool(demo.cpu) and max(demo.cpu) <= widest,
        ),
    ]


def run_pair(asked: argparse.Namespace, pair: int, order: list[str]) -> dict[str, Demo]:
    """Run a demo of each program in that order, and print them."""
    demos = {}
    for name in order:
        tree = (asked.old if name == "old" else HERE).resolve()
        out = (asked.out / f"{'noisy-' if asked.noisy else ''}{pair}-{name}").resolve()
        demos[name] = run_demo(tree, out, asked.seed * 100 + pair if asked.noisy else None)
        print(f"pair {pair}  {describe(name, demos[name])}", flush=True)
    return demos


def judge_ratios(ratios: list[float]) -> list[tuple[str, bool]]:
    """Print the CPU half-width, new ÷ old, and return its target."""
    if not ratios:
        return []
    mean, low, high = compute_geometric_mean(ratios)
    print(f"CPU half-width, new ÷ old, {len(ratios)} pairs: {mean:.2f} [{low:.2f}, {high:.2f}]")
    return [(f"CPU half-width at most {MOST_RATIO:g} of the old one", mean <= MOST_RATIO)]


def main() -> int:
    """Run the pairs, print, and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--old", type=Path)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--noisy", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("build/demo-pairs"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    draw, ratios = random.Random(asked.seed), []
    reached: dict[str, list[bool]] = {}
    for pair in range(1, asked.pairs + 1):
        order = draw.sample(["old", "new"], 2) if asked.old else ["new"]
        demos = run_pair(asked, pair, order)
        for target, met in judge_demo(demos["new"], has_hog=asked.noisy):
            reached.setdefault(target, []).append(met)
        if not all(demo.cpu for demo in demos.values()):
            print(f"pair {pair} has a demo without an interval, and gives no ratio", flush=True)
        elif "old" in demos:
            new, old = (statistics.geometric_mean(demos[name].cpu) for name in ("new", "old"))
            ratios.append(new / old)
    for target, met in judge_ratios(ratios):
        reached[target] = [met]
    for target, each in reached.items():
        verdict = "met" if all(each) else f"MISSED in {each.count(False)} of {len(each)}"
        print(f"target: {target}: {verdict}")
    return 0 if all(all(each) for each in reached.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
