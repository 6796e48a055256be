"""``dballoc import``: results made elsewhere."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from dballoc.cli.shared.safe_output import Console
from dballoc.ground.numbers import count
from dballoc.intake import import_results as intake

# Lines on what was left out.
_MOST_NOTES = 10


def import_(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH…",
            help="Tables of figures, or directories with an import.toml: of outputs of sysbench "
            "and other load generators, tables, call stacks, readings of memory.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The new results directory.")],
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="VARIANT",
            help="The variant that the others are relative to; default: the first.",
        ),
    ] = None,
    mapping: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The mapping file of a directory; default: import.toml in it."
        ),
    ] = None,
    published: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The published figures that they repeat, like mdev-38369: the report sets both "
            "side by side.",
        ),
    ] = None,
) -> None:
    """Bring results made elsewhere, on Windows for example, into a results directory, for the same
    report; docs/import.md has the formats.
    """
    imported = intake.import_results(paths, out, baseline, mapping, published)
    e = imported.assembled.experiment
    sizes = [
        count(imported.figures, "figure"),
        count(len(e.workloads), "workload"),
        count(len(e.variant), "variant"),
    ]
    sizes += [count(len(imported.assembled.machines), "machine"), count(e.blocks or 1, "block")]
    sizes += [count(imported.profiles, "profile")] if imported.profiles else []
    sizes += [count(imported.series, "series", "series") + " of memory"] if imported.series else []
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"Imported into {out}: {', '.join(sizes)}; baseline {e.baseline}", markup=False)
    if imported.unmatched:
        console.print(
            f"Left out, because they match no pattern: {count(len(imported.unmatched), 'file')}, "
            f"{imported.unmatched[0]} first",
            markup=False,
        )
    for note in imported.notes[:_MOST_NOTES]:
        console.print(note, markup=False)
    if (more := len(imported.notes) - _MOST_NOTES) > 0:
        console.print(f"… and {count(more, 'note')} like these", markup=False)
    console.print(f"Report: dballoc report {shlex.quote(os.fspath(out))}", markup=False)
