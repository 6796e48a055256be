"""What public reports told of servers that took too much memory, made again, and what dballoc says.

    python benchmarks/public_reports.py                 every case, a minute each at most
    python benchmarks/public_reports.py --case 03b      this one; may be given more than once

Each case starts a server of its own, makes the condition by construction, asks dballoc, and judges
what it printed against what is right. The table has a line for each thing that was judged. The exit
status is 1 if one is wrong, or a case could not be run (MySQL: ``dballoc fetch mysql@9.7`` first).
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report_cases import heap, owners, programs, resident, settings
from report_cases.case import Case, Judgement, shorten
from report_cases.private_server import Workshop

from dballoc.ground.errors import Failure, UsageError

CASES: list[Case] = [
    *heap.CASES,
    *settings.CASES,
    *programs.CASES,
    *resident.CASES,
    *owners.CASES,
]
HEAD = "| case | of | printed | right | verdict |\n| --- | --- | --- | --- | --- |"


def judge_case(case: Case, workshop: Workshop) -> bool:
    """Run a case, and print a line for each thing that was judged; return whether all is right."""
    began = time.monotonic()
    judgements: list[Judgement] = []
    try:
        judgements.extend(case.run(workshop))
    except (Failure, UsageError, subprocess.TimeoutExpired) as error:
        print(f"| {case.name} | {case.report} | not run: {error} | | **not run** |", flush=True)
        return False
    for each in judgements:
        cells = [case.name, each.subject, each.printed, each.right]
        words = " | ".join(shorten(cell).replace("|", "\\|") for cell in cells)
        print(f"| {words} | {'right' if each.passed else '**wrong**'} |")
    seconds = f"{time.monotonic() - began:.0f} s"
    print(f"| {case.name} | {case.report} | {seconds} | | |", flush=True)
    return bool(judgements) and all(each.passed for each in judgements)


def main() -> int:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES])
    chosen = parser.parse_args().case
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory(prefix="public-reports-") as place:
        workshop = Workshop(Path(place))
        results = [
            judge_case(case, workshop) for case in CASES if not chosen or case.name in chosen
        ]
    print(f"\n{sum(results)} of {len(results)} cases are right")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
