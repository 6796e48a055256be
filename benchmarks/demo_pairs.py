"""What ten minutes decide: the demo of this program and of an older one, by turns.

    python benchmarks/demo_pairs.py --old DIR [--pairs 4] [--seed 1] [--noisy] [--out DIR]

DIR is another work tree in which ``make setup`` was run. A pair is a demo (``dballoc bench``) of
each, in an order drawn from the seed. ``--noisy`` runs benchmarks/cpu_hog.py beside every demo,
with the same seed for both of a pair. Printed are each demo's minutes, half-widths of CPU per
transaction and peak RSS, how far below its estimate the end of throughput lies that decides "no
worse", slice scatter, and the answer; then how many demos of each program name what to use, or
prove that nothing is worth it, and what this program's demos reach of the targets. Demos that are
done are kept below --out, and an interrupted run goes on where it stopped; a demo that was cut is
begun again, as its minutes and its hour would be those of two. Without ``--noisy`` an hour counts
as noisy if slices scatter by 10 % or more. Without ``--old`` this program's demos run alone. The
exit status is 1 where a target is missed.
"""

import argparse
import contextlib
import json
import math
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from campaigns import NOISY
from cpu_hog import noisy_machine

from dballoc.store.facts import FINAL_ENDINGS

HERE = Path(__file__).resolve().parents[1]
# Targets of each demo of this program: its minutes, the widest half-width of CPU, how far below the
# estimate throughput's bound lies, and how wide peak RSS may be where it is not decided, for how
# many variants. Of all quiet demos, the share that ends settled.
MOST_MINUTES, LEAST_SETTLED = 10.0, 0.8
MOST_CPU = {"quiet": 0.01, "noisy": 0.04}
MOST_BELOW = {"quiet": 0.03, "noisy": 0.05}
MOST_RSS, RSS_SHARE = 0.03, 0.75
# The reason of an answer that proves that nothing is worth it has these words.
NOTHING_BETTER = "is shown not to be better"


@dataclass(frozen=True, kw_only=True)
class Demo:
    """A demo's figures. Half-widths are of ln ratio; ``cpu`` and ``rss`` hold one a variant;
    ``rss_decided``: whether peak RSS is shown to differ, for each; ``below``: how far throughput's
    bound lies below its estimate, as a share, for each; ``is_settled``: whether it names what to
    use, or proves that nothing is worth it.
    """

    minutes: float
    cpu: list[float]
    rss: list[float]
    rss_decided: list[bool]
    below: list[float]
    headline: str
    is_settled: bool
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
    rss_decided, below = [], []
    for figure in figures:
        is_shown = bool(figure["low"]) and not figure["low"] <= 1 <= figure["high"]
        if figure["metric"] == "tps" and figure["low"]:
            # The program before bounds read "no worse" off the interval.
            below.append(1 - figure.get("bound", figure["low"]) / figure["ratio"])
        if figure["metric"] in by_metric and figure["low"]:
            by_metric[figure["metric"]].append(math.log(figure["high"] / figure["low"]) / 2)
            if figure["metric"] == "rss_peak":
                rss_decided.append(is_shown)
    minutes, slice_scatter = read_store(out)
    return Demo(
        minutes=minutes,
        cpu=by_metric["cpu"],
        rss=by_metric["rss_peak"],
        rss_decided=rss_decided,
        below=below,
        headline=answer["headline"],
        is_settled=answer["answer"] == "use" or NOTHING_BETTER in answer["reason"],
        slice_scatter=slice_scatter,
    )


def read_store(out: Path) -> tuple[float, float | None]:
    """Return a demo's minutes, and the scatter of its duets' slices by the pilot. The older program
    may have another format, but has had these for long.
    """
    store = sqlite3.connect(f"{(out / 'results.sqlite').as_uri()}?mode=ro", uri=True)
    with contextlib.closing(store):
        facts = dict(store.execute("SELECT key, value FROM campaign"))
        [ended] = store.execute("SELECT max(ended) FROM trial").fetchone()
    components = json.loads(facts["duet"])["components"].values()
    scatter = max((each["slice"] for each in components), default=None)
    return (ended - float(facts["started"])) / 60, scatter


def describe(name: str, demo: Demo) -> str:
    """One line on a demo."""
    widths = (
        f"{what} ±{', ±'.join(f'{half:.1%}' for half in halves) or '?'}"
        for what, halves in (("CPU", demo.cpu), ("peak RSS", demo.rss))
    )
    below = ", ".join(f"−{share:.1%}" for share in demo.below) or "?"
    scatter = "" if demo.slice_scatter is None else f"; slices scatter by {demo.slice_scatter:.1%}"
    return (
        f"{name:8} {demo.minutes:5.1f} min  {'; '.join(widths)}; throughput's bound {below}"
        f"{scatter}: {demo.headline}"
    )


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
        (
            f"throughput's bound at most {MOST_BELOW[hour]:.0%} below in a {hour} hour",
            bool(demo.below) and max(demo.below) <= MOST_BELOW[hour],
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


def judge_answers(demos: dict[str, list[Demo]]) -> list[tuple[str, bool]]:
    """Print how many demos of each program are settled; return this program's targets."""
    for name, each in demos.items():
        print(f"{name}: {sum(demo.is_settled for demo in each)} of {len(each)} settled")
    settled = [demo.headline for demo in demos["new"] if demo.is_settled]
    return [
        (
            f"{LEAST_SETTLED:.0%} of the demos are settled",
            len(settled) >= LEAST_SETTLED * len(demos["new"]),
        ),
        ("no two settled demos name different mallocs", len(set(settled)) <= 1),
    ]


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
    draw = random.Random(asked.seed)
    reached: dict[str, list[bool]] = {}
    of_program: dict[str, list[Demo]] = {
        name: [] for name in (["new", "old"] if asked.old else ["new"])
    }
    for pair in range(1, asked.pairs + 1):
        order = draw.sample(["old", "new"], 2) if asked.old else ["new"]
        for name, demo in run_pair(asked, pair, order).items():
            of_program[name].append(demo)
        for target, met in judge_demo(of_program["new"][-1], has_hog=asked.noisy):
            reached.setdefault(target, []).append(met)
    for target, met in judge_answers(of_program):
        reached[target] = [met]
    for target, each in reached.items():
        verdict = "met" if all(each) else f"MISSED in {each.count(False)} of {len(each)}"
        print(f"target: {target}: {verdict}")
    return 0 if all(all(each) for each in reached.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
