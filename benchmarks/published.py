"""Every shipped experiment that repeats a post, at small scale, to its report beside the post.

    python benchmarks/published.py [--out DIR] [--scale SHARE] [--bench FLAGS] [--fit FLAGS] [NAME…]

Runs each with ``dballoc bench --scale small``, or ``dballoc fit`` where it searches for a cache,
then ``dballoc report``, with ``--published`` where the post has figures, and prints its minutes,
the report's path, and how many differences its note tells. ``--bench`` and ``--fit`` have more
flags of these verbs, like "--blocks 1 --level 2s" and "--time 2s", for a quicker look. The note is
checked: all that the comparison of the set-up with the post's finds has to be in report.md. What an
interrupted run left is resumed by the same flags, and what is done is only reported again. An
experiment that this host cannot run (a server that was not fetched) is told with the reason. What
fails keeps none of the others from running; Ctrl-C ends all. The exit status is 1 if one failed or
a note lacks something.
"""

import argparse
import re
import shlex
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

from dballoc import catalogue
from dballoc.document.markdown import escape_markdown
from dballoc.ground.errors import Failure, UsageError
from dballoc.questions.compare.campaign_tables import read_results
from dballoc.questions.published.setup.campaign_setup import compare_campaign_with_post
from dballoc.questions.published.setup.run_setup import DEFAULT, NOT_SET, NOT_STATED, PostComparison

# Exit statuses of what cannot be run as asked, and of what was interrupted.
REFUSED, INTERRUPTED = 2, 130


@dataclass(frozen=True, kw_only=True)
class Shipped:
    """An experiment that repeats a post. ``verb``: bench, or fit where it searches for a cache;
    ``has_figures``: whether its report can stand beside the post's figures.
    """

    name: str
    verb: str
    has_figures: bool


def list_shipped() -> list[Shipped]:
    """The shipped experiments that repeat a post."""
    tables = {name: tomllib.loads(text) for name, text in catalogue.experiments().items()}
    return [
        Shipped(
            name=name,
            verb="fit" if "fit" in table else "bench",
            has_figures="published" in table,
        )
        for name, table in tables.items()
        if "post" in table
    ]


def run_dballoc(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a verb, its output kept for the case that it fails."""
    return subprocess.run(
        [sys.executable, "-I", "-m", "dballoc", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )


def list_missing(comparisons: list[PostComparison], report: str) -> list[str]:
    """What the comparison finds and the report's note lacks."""
    note = report.partition("\n## ")[0]
    missing = []
    for compared in comparisons:
        if not compared.differs:
            texts = [compared.run] if compared.post == NOT_STATED else []
        elif compared.run == NOT_SET:
            texts = [f"{compared.item}={compared.post}"]
        elif compared.post == DEFAULT:
            texts = [f"{compared.item}={compared.run}"]
        else:
            texts = [compared.item, f"the post: {compared.post}; here: {compared.run}"]
        if any(escape_markdown(text) not in note for text in texts):
            missing.append(f"{compared.topic} {compared.item}".strip())
    return missing


def measure(shipped: Shipped, out: Path, flags: list[str]) -> str | None:
    """Run or resume one experiment, and print a line on it. Returns what is wrong.
    KeyboardInterrupt where the campaign was interrupted.
    """
    name, started = shipped.name, time.monotonic()
    run = run_dballoc(shipped.verb, "--experiment", name, *flags, "--out", out)
    if run.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    if run.returncode:
        reason = (run.stderr.strip() or run.stdout.strip()).splitlines()[-1:]
        words = "cannot run here" if run.returncode == REFUSED else "failed"
        print(f"{name}: {words}: {' '.join(reason)}", flush=True)
        return None if run.returncode == REFUSED else "failed"
    report = run_dballoc("report", out, *(["--published"] if shipped.has_figures else []))
    if report.returncode:
        print(f"{name}: its report failed: {report.stderr.strip()}", flush=True)
        return "no report"
    try:
        return check_note(name, out, started)
    except (Failure, UsageError, OSError) as error:
        print(f"{name}: its results cannot be read: {error}", flush=True)
        return "its results cannot be read"


def check_note(name: str, out: Path, started: float) -> str | None:
    """Print a line on what was measured. Returns what is wrong with the report's note."""
    campaign = read_results(out)
    comparisons = compare_campaign_with_post(campaign)
    missing = list_missing(comparisons, (out / "report.md").read_text(encoding="utf-8"))
    begun = campaign.facts.started
    ended = max((end for end in campaign.trials["ended"].to_list() if end), default=begun)
    print(
        f"{name}: {(ended - begun) / 60:.1f} min of campaign, "
        f"{(time.monotonic() - started) / 60:.1f} min now, {campaign.trials.height} trials, "
        f"{sum(c.differs for c in comparisons)} differences from the post; {out / 'report.html'}",
        flush=True,
    )
    if missing:
        print(f"{name}: the note lacks: {', '.join(missing)}", flush=True)
        return "the note lacks something"
    return None


def parse_arguments() -> argparse.Namespace:
    """Read the command line. Exits for a name that there is not."""
    parser = argparse.ArgumentParser(
        description=re.split(r"\n\n", __doc__ or "")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("dballoc-results/published"))
    parser.add_argument("--scale", default="small")
    parser.add_argument("--bench", default="", metavar="FLAGS")
    parser.add_argument("--fit", default="", metavar="FLAGS")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    names = [shipped.name for shipped in list_shipped()]
    if unknown := set(arguments.names) - set(names):
        parser.error(f"no experiment {min(unknown)!r} of a post; there are {names}")
    return arguments


def main() -> int:
    """Run all of them, and print."""
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    flags = {"bench": shlex.split(arguments.bench), "fit": shlex.split(arguments.fit)}
    wrong = {}
    for shipped in list_shipped():
        if arguments.names and shipped.name not in arguments.names:
            continue
        more = ["--scale", arguments.scale, *flags[shipped.verb]]
        try:
            problem = measure(shipped, arguments.out / shipped.name, more)
        except KeyboardInterrupt:
            print(f"{shipped.name}: interrupted; the same command resumes it", flush=True)
            return INTERRUPTED
        if problem:
            wrong[shipped.name] = problem
    for name, problem in wrong.items():
        print(f"{name}: {problem}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
