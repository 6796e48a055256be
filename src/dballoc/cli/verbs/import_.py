"""``dballoc import``: results made elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from dballoc.cli.shared.safe_output import Console
from dballoc.intake import import_results as intake
from dballoc.numbers import count


def import_(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH…",
            help="CSV files of figures, or directories of sysbench's outputs with an import.toml.",
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
) -> None:
    """Bring results made elsewhere into a results directory, for the same report; docs/import.md
    has the formats.
    """
    imported = intake.import_results(paths, out, baseline, mapping)
    e = imported.assembled.experiment
    sizes = [
        count(imported.figures, "figure"),
        count(len(e.workloads), "workload"),
        count(len(e.variant), "variant"),
    ]
    sizes += [count(len(imported.assembled.machines), "machine"), count(e.blocks or 1, "block")]
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"Imported into {out}: {', '.join(sizes)}; baseline {e.baseline}", markup=False)
    if imported.unmatched:
        console.print(
            f"Left out, because they match no pattern: {count(len(imported.unmatched), 'file')}, "
            f"{imported.unmatched[0]} first",
            markup=False,
        )
    console.print(f"Report: dballoc report {out}", markup=False)
