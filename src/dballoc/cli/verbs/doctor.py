"""``dballoc doctor``: what is missing or wrong on this host, each with its remedy."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from dballoc.cli.extras import describe_install
from dballoc.cli.shared.doctor_of_hosts import print_hosts
from dballoc.cli.shared.safe_output import Console, clean, print_json, say
from dballoc.cli.verb_list import VERBS, list_working_verbs

if TYPE_CHECKING:
    from dballoc.doctor.finding import Finding
    from dballoc.doctor.installation import VerbPackages

_STYLES = {"ok": "green", "note": "dim", "warn": "yellow", "missing": "bold red"}


ClientHost = Annotated[
    bool,
    typer.Option(
        "--client-host",
        help="Examine only what a client host of bench --ray needs: no server, no allocator.",
    ),
]
Ray = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Examine the hosts of this Ray cluster instead, each for its role, and say in what "
        "they differ.",
    ),
]


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    client_host: ClientHost = False,
    ray: Ray = None,
) -> None:
    """Say what is missing or wrong on this host for a comparison, and what to do about it. Where
    dballoc is installed without what comparisons need, it examines what is left.

    ok: fine. note: optional, and not here. warn: bench runs, but something fails later or results
    suffer. missing: bench cannot run. The exit status is 1 if something is missing, else 0. It
    changes nothing but one thing: it restores a host setting that a killed run left switched.
    """
    from dballoc.doctor.examine import can_bench, examine  # here: --help needs nothing of it

    if ray is not None:
        print_hosts(ray, as_json)
        return
    findings = clean(examine(_describe_installation(), is_client_host=client_host))
    console = Console()
    if as_json:
        print_json([asdict(f) for f in findings])
    elif console.is_terminal:
        console.print(_table(findings))
    else:
        for f in findings:
            say(f"{f.state}: {f.name}: {f.text}" + (f"; {f.remedy}" if f.remedy else ""))
    if not can_bench(findings):
        raise typer.Exit(1)


def _describe_installation() -> "VerbPackages":
    from dballoc.doctor.installation import VerbPackages

    working = list_working_verbs()
    lacking = [name for name in VERBS if name not in working]
    return VerbPackages(
        working=tuple(working),
        lacking=tuple(lacking),
        remedy=describe_install("all") if lacking else "",
    )


def _table(findings: "list[Finding]") -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    for f in findings:
        description = Text(f.text, style="dim" if f.state == "note" else "")
        if f.remedy:
            description.append(f"\n→ {f.remedy}", style="cyan")
        table.add_row(Text(f.state, style=_STYLES[f.state]), f.name, description)
    return table
