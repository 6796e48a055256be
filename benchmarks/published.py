"""Every shipped experiment that repeats a post, at small scale, to its report beside the post.

    python benchmarks/published.py [--out DIR] [--scale SHARE] [--bench FLAGS] [NAME…]

Runs each with ``dballoc bench --scale small``, then ``dballoc report --published``, and prints its
minutes, the report's path, and how many differences its note tells. ``--bench`` has more flags of
the verb, like "--blocks 1 --level 2s", for a quicker look. The note is checked: all that the
comparison of the set-up with the post's finds has to be in report.md. What an interrupted run left
is resumed, and what is done is only reported again. An experiment that this host cannot run (a
server that was not fetched) is told with the reason. The exit status is 1 if one failed or a note
lacks something.
"""

import argparse
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

from dballoc import catalogue
from dballoc.analysis.campaign_tables import Campaign, load_campaign
from dballoc.analysis.published.setup.campaign_setup import compare_campaign_with_post
from dballoc.analysis.published.setup.post_comparison import DEFAULT, NOT_SET, NOT_STATED
from dballoc.report.outputs.markdown import escape_markdown

# The exit status of what cannot be run as asked.
REFUSED = 2


def list_names() -> list[str]:
    """The shipped experiments that repeat a post."""
    return [name for name, text in catalogue.experiments().items() if "\n[post]\n" in text]


def run_dballoc(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a verb, its output kept for the case that it fails."""
    return subprocess.run(
        [sys.executable, "-m", "dballoc", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )


def list_missing(campaign: Campaign, report: str) -> list[str]:
    """What the comparison finds and the report's note lacks."""
    note = report.partition("\n## ")[0]
    missing = []
    for compared in compare_campaign_with_post(campaign):
        if not compared.differs:
            texts = [compared.run] if compared.post == NOT_STATED else []
        elif compared.run == NOT_SET:
            texts = [f"{compared.item}={compared.post}"]
        elif compared.post in {DEFAULT, NOT_STATED}:
            texts = [f"{compared.item}={compared.run}"]
        else:
            texts = [compared.item, f"the post: {compared.post}; here: {compared.run}"]
        if any(escape_markdown(text) not in note for text in texts):
            missing.append(f"{compared.topic} {compared.item}".strip())
    return missing


def measure(name: str, out: Path, flags: list[str]) -> str | None:
    """Run or resume one experiment, and print a line on it. Returns what is wrong."""
    started = time.monotonic()
    bench = run_dballoc("bench", "--experiment", name, *flags, "--out", out)
    if bench.returncode:
        reason = (bench.stderr.strip() or bench.stdout.strip()).splitlines()[-1:]
        verb = "cannot run here" if bench.returncode == REFUSED else "failed"
        print(f"{name}: {verb}: {' '.join(reason)}", flush=True)
        return None if bench.returncode == REFUSED else "failed"
    report = run_dballoc("report", out, "--published")
    if report.returncode:
        print(f"{name}: its report failed: {report.stderr.strip()}", flush=True)
        return "no report"
    campaign = load_campaign(out)
    differences = sum(c.differs for c in compare_campaign_with_post(campaign))
    missing = list_missing(campaign, (out / "report.md").read_text(encoding="utf-8"))
    ended = max((end for end in campaign.trials["ended"].to_list() if end), default=0.0)
    print(
        f"{name}: {(ended - float(campaign.facts['started'])) / 60:.1f} min of campaign, "
        f"{(time.monotonic() - started) / 60:.1f} min now, {campaign.trials.height} trials, "
        f"{differences} differences from the post; {out / 'report.html'}",
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
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(list_names()):
        parser.error(f"no experiment {min(unknown)!r} of a post; there are {list_names()}")
    return arguments


def main() -> int:
    """Run all of them, and print."""
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    flags = ["--scale", arguments.scale, *shlex.split(arguments.bench)]
    wrong = {
        name: problem
        for name in arguments.names or list_names()
        if (problem := measure(name, arguments.out / name, flags))
    }
    for name, problem in wrong.items():
        print(f"{name}: {problem}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
