"""Whether `dballoc explain` names the cause of a server's memory, where causes are planted.

    python benchmarks/causes.py [--servers mariadb,mysql@9.7,…] [--causes "open tables,…"]
                                [--schema on|off|both] [--json FILE]

Each cell is one start of a server, with performance_schema and all its memory instruments on, or
with it off. A cause of known bytes is planted and looked at once:

on     right if the first verdict that names a use of memory names the cause
off    right if the cause is among the first three suspects, or caches and owners with a verdict of
       their own
fact   wrong if another cause is called likely: then it would pass for a fact

The cells are added to the JSON file, and those that it has are not run again. The exit status is 1
if fewer than 90 % are right with performance_schema on, or 80 % with it off, or if any wrong cause
is called likely.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pymysql
from planted_causes import CAUSES, Cause, plant
from report_cases.private_server import Workshop

from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.numbers import with_unit

SERVERS = "mariadb,mysql@9.7,mariadb@11.8,mysql@8.0.33"
OPTIONS = {
    "on": ("--performance-schema=ON", "--performance-schema-instrument=memory/%=ON"),
    "off": ("--performance-schema=OFF",),
}
TARGETS = {"on": 0.9, "off": 0.8}
# Verdicts that name a use of memory, and so a cause; the others are on growth, limits and malloc.
CAUSAL = {"sessions", "owner", "cache", "unowned", "suspects"}
# Those whose headline says what the memory is for without instruments, too.
PLAIN = {"owner", "cache"}
# A verdict's lines of evidence on suspects begin so.
SUSPECT = re.compile(r"^(likely|possible): ")
RISE = 20 << 20


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One look: ``rise``: the bytes by which RSS rose; ``named``: what was named, the first first;
    ``right``: whether the cause is where it must be; ``false_fact``: another cause that is called
    likely, or empty.
    """

    server: str
    schema: str
    cause: str
    rise: int
    named: list[str]
    right: bool
    false_fact: str


def look(server: str, schema: str, cause: Cause, workshop: Workshop) -> Cell:
    """Plant a cause, and judge what is said of it."""
    with (
        workshop.start(server, *OPTIONS[schema], *cause.options) as running,
        plant(cause, running) as rise,
    ):
        if rise < RISE:
            raise Failure(f"the cause was not planted: RSS rose by {with_unit(rise)} alone")
        verdicts = running.explain()["verdicts"]
    suspects = [line for verdict in verdicts for line in verdict["evidence"] if SUSPECT.match(line)]
    named = list_causes(verdicts) if schema == "on" else list_suspects(verdicts)
    others = [other for other in CAUSES if other is not cause]
    return Cell(
        server=server,
        schema=schema,
        cause=cause.name,
        rise=rise,
        named=[name[:160] for name in named[:3]],
        right=any(re.search(cause.words, name, re.I) for name in named[: TARGET_RANK[schema]]),
        false_fact=next(
            (
                line
                for line in suspects
                if line.startswith("likely")
                and not re.search(cause.words, line, re.I)
                and any(re.search(other.words, line, re.I) for other in others)
            ),
            "",
        ),
    )


TARGET_RANK = {"on": 1, "off": 3}


def list_causes(verdicts: list[dict[str, Any]]) -> list[str]:
    """Return what the verdicts on uses of memory say, each as one text."""
    return [
        "; ".join([verdict["headline"], *verdict["evidence"]])
        for verdict in verdicts
        if verdict["key"] in CAUSAL
    ]


def list_suspects(verdicts: list[dict[str, Any]]) -> list[str]:
    """Return the suspects, and the headlines of verdicts on an owner, in the order of the page."""
    return [
        line
        for verdict in verdicts
        for line in (
            [verdict["headline"]]
            if verdict["key"] in PLAIN
            else [line for line in verdict["evidence"] if SUSPECT.match(line)]
        )
    ]


def format_row(cell: Cell) -> str:
    """Return a line of the table."""
    named = " / ".join(name[:70] for name in cell.named).replace("|", "\\|") or "nothing"
    verdict = "right" if cell.right else "**missed**"
    if cell.false_fact:
        verdict += f", **false: {cell.false_fact[:60]}**"
    return (
        f"| {cell.server} | {cell.schema} | {cell.cause} | {with_unit(cell.rise)} | {named} | "
        f"{verdict} |"
    )


def load_cells(path: Path | None) -> list[Cell]:
    """Return the cells of an earlier run."""
    if path is None or not path.exists():
        return []
    return [Cell(**cell) for cell in json.loads(path.read_text(encoding="utf-8"))]


def print_shares(cells: list[Cell]) -> bool:
    """Print the shares that are right; return whether they reach the targets."""
    reached = not any(cell.false_fact for cell in cells)
    print(f"\nwrong causes called likely: {sum(bool(cell.false_fact) for cell in cells)}")
    for schema, target in TARGETS.items():
        judged = [cell for cell in cells if cell.schema == schema]
        right = sum(cell.right for cell in judged)
        if judged:
            print(
                f"performance_schema {schema}: {right} of {len(judged)} causes, "
                f"{right / len(judged):.0%} (target {target:.0%})"
            )
            reached &= right >= target * len(judged)
    return reached


def main() -> int:
    """Run and print, cell by cell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--servers", default=SERVERS)
    parser.add_argument("--causes", default=",".join(cause.name for cause in CAUSES))
    parser.add_argument("--schema", choices=("on", "off", "both"), default="both")
    parser.add_argument("--json", type=Path)
    request = parser.parse_args()
    cells = load_cells(request.json)
    known = {(cell.server, cell.schema, cell.cause) for cell in cells}
    print(
        "| server | schema | cause | RSS rose by | named | |\n| --- | --- | --- | --: | --- | --- |"
    )
    schemas = ("on", "off") if request.schema == "both" else (request.schema,)
    with tempfile.TemporaryDirectory(prefix="causes-") as place:
        workshop = Workshop(Path(place))
        for server in request.servers.split(","):
            for cause in CAUSES:
                family = server.partition("@")[0]
                if cause.name not in request.causes.split(",") or family not in cause.families:
                    continue
                for schema in schemas:
                    if (server, schema, cause.name) in known:
                        continue
                    try:
                        cells.append(look(server, schema, cause, workshop))
                    except (
                        Failure,
                        UsageError,
                        pymysql.Error,
                        subprocess.TimeoutExpired,
                    ) as error:
                        words = " ".join(str(error).split())[:200]
                        print(f"| {server} | {schema} | {cause.name} | | {words} | not run |")
                        continue
                    print(format_row(cells[-1]), flush=True)
                    if request.json:
                        request.json.write_text(json.dumps([asdict(c) for c in cells], indent=1))
    return 0 if print_shares(cells) and cells else 1


if __name__ == "__main__":
    sys.exit(main())
