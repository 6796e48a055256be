"""The flags of ``dballoc bench`` that set nothing of the experiment."""

from dataclasses import dataclass
from typing import Annotated

import typer

from dballoc.cli.shared import flags


@dataclass(frozen=True, kw_only=True)
class Run:
    """How bench runs the experiment: what it also records, where it runs, what it writes and
    prints.
    """

    record: Annotated[
        bool,
        typer.Option(
            "--record",
            help="Also record every allocation of the baseline, in a start of its own, as a trace "
            "for dballoc replay.",
        ),
    ] = False
    limit: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="With --record: of the raw recording; default: 512M."),
    ] = None
    extend: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Go on with the finished campaign in --out, as far as the last of its declared "
            "looks that is reached in this time, like 20m; with --design, its blocks alone. Give "
            "no experiment: the directory has it.",
        ),
    ] = None
    out: flags.Out = None
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Run the blocks on the hosts of this Ray cluster instead of here: its nodes with "
            "the resource dballoc_server; with nodes that have dballoc_client, the load comes from "
            "those.",
        ),
    ] = None
    prefer: flags.Prefer = None
    margin: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENT",
            help="What a variant may lose and still count as no worse: 3% unless given. Stored "
            "before the first block.",
        ),
    ] = None
    report: flags.Report = True
    measure_only: Annotated[
        bool,
        typer.Option(
            "--measure-only",
            help="Run every planned block, judge nothing and write no report, which needs only the "
            "extra measure; dballoc report judges the results once, on any machine.",
        ),
    ] = False
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check everything, print trials, minutes, memory and disk, and stop.",
        ),
    ] = False
    print_: flags.PrintFile = False
