"""What ten minutes decide: the demo of this program and of an older one, by turns.

    python benchmarks/demo_pairs.py --old DIR [--pairs 4] [--seed 1] [--noisy] [--out DIR]

DIR is another work tree in which ``make setup`` was run. A pair is a demo (``dballoc bench``) of
each, in an order drawn from the seed. ``--noisy`` runs benchmarks/cpu_hog.py beside every demo,
with the same seed for both of a pair. Printed are each demo's minutes, half-widths of CPU per
transaction and peak RSS, differences shown, and slice scatter; then the CPU half-width, new ÷ old,
as the geometric mean over pairs with its 95 % interval. Demos that are done are kept below --out,
and an interrupted run goes on where it stopped. Only a demo of both programs makes a pair.
"""

import argparse
import contextlib
import json
import math
import random
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cpu_hog import noisy_machine
from scipy.special import stdtrit

from dballoc.analysis.campaign_tables import load_campaign

HERE = Path(__file__).resolve().parents[1]
TARGET = 0.4


@dataclass(frozen=True, kw_only=True)
class Demo:
    """A demo's figures. Half-widths are of ln ratio; ``cpu`` and ``rss`` hold one a variant."""

    minutes: float
    cpu: list[float]
    rss: list[float]
    decided: int
    slice_scatter: float | None


def run_demo(tree: Path, out: Path, seed: int | None) -> Demo:
    """Run or resume a demo of the program in that work tree. ``seed``: of the noise, if any."""
    if not (out / "recommendation.json").exists():
        noise = noisy_machine(seed) if seed is not None else contextlib.nullcontext()
        with noise:
            command = [tree / ".venv/bin/dballoc", "bench", "--out", out]
            subprocess.run(command, check=True, cwd=tree, stdout=subprocess.DEVNULL)
    return read_demo(out)


def read_demo(out: Path) -> Demo:
    """Read what a demo has decided, from its recommendation and its store."""
    answer = json.loads((out / "recommendation.json").read_text())
    figures = [figure for candidate in answer["candidates"] for figure in candidate["figures"]]
    by_metric: dict[str, list[float]] = {"cpu": [], "rss_peak": []}
    decided = 0
    for figure in figures:
        if figure["metric"] in by_metric and figure["low"]:
            by_metric[figure["metric"]].append(math.log(figure["high"] / figure["low"]) / 2)
        decided += bool(figure["low"]) and not figure["low"] <= 1 <= figure["high"]
    campaign = load_campaign(out)
    ended, facts = campaign.trials["ended"].max(), campaign.facts
    assert isinstance(ended, float)
    components = json.loads(facts.get("duet", "{}")).get("components", {})
    scatters = [each["slice"] for each in components.values() if "slice" in each]
    return Demo(
        minutes=(ended - float(facts["started"])) / 60,
        cpu=by_metric["cpu"],
        rss=by_metric["rss_peak"],
        decided=decided,
        slice_scatter=max(scatters, default=None),
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


def main() -> None:
    """Run the pairs and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--old", type=Path, required=True)
    parser.add_argument("--new", type=Path, default=HERE)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--noisy", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("build/demo-pairs"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    draw, ratios = random.Random(asked.seed), []
    for pair in range(1, asked.pairs + 1):
        halves = {}
        for name in draw.sample(["old", "new"], 2):
            tree = (asked.old if name == "old" else asked.new).resolve()
            out = (asked.out / f"{'noisy-' if asked.noisy else ''}{pair}-{name}").resolve()
            demo = run_demo(tree, out, asked.seed * 100 + pair if asked.noisy else None)
            print(f"pair {pair}  {describe(name, demo)}", flush=True)
            halves[name] = statistics.geometric_mean(demo.cpu) if demo.cpu else math.nan
        if not math.isfinite(halves["new"] / halves["old"]):
            print(f"pair {pair} has a demo without an interval, and does not count", flush=True)
            continue
        ratios.append(halves["new"] / halves["old"])
        mean, low, high = compute_geometric_mean(ratios)
        print(
            f"CPU half-width, new ÷ old, after {len(ratios)} pairs: {mean:.2f} "
            f"[{low:.2f}, {high:.2f}]",
            flush=True,
        )
    if ratios:
        verdict = "met" if compute_geometric_mean(ratios)[0] <= TARGET else "MISSED"
        print(f"target: at most {TARGET}: {verdict}")


if __name__ == "__main__":
    main()
