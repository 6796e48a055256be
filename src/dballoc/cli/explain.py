"""``dballoc explain``: where a live server's memory goes."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dballoc.cli import procedure
from dballoc.explain import explanation, target
from dballoc.explain.bounds import Bounds
from dballoc.explain.ledger import Ledger
from dballoc.servers import credentials

_MIB = 2**20


def explain(
    pid: Annotated[int | None, typer.Option(metavar="PID", help="The server's process.", min=1)] = None,
    socket: Annotated[str | None, typer.Option(metavar="PATH", help="The server that listens there.")] = None,
    service: Annotated[str | None, typer.Option(metavar="UNIT", help="The main process of a systemd unit.")] = None,
    login_path: Annotated[
        str | None, typer.Option(metavar="NAME", help="Login path that the server is asked with, beside ~/.my.cnf.")
    ] = None,
    without_sql: Annotated[bool, typer.Option("--no-sql", help="Do not ask the server itself.")] = False,
    whole: Annotated[
        bool,
        typer.Option(
            "--procedure",
            help="Also what one looks up by hand: variables, counters, InnoDB's and performance_schema's own "
            "figures, sessions, process and host.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the ledger as JSON, bytes.")] = False,
) -> None:
    """Say where a live server's memory goes: lines that add up to its RSS.

    Without --pid, --socket or --service: the only server that runs here. Nothing is stopped, restarted, enabled or written.
    """
    pid = target.find(pid, socket, service)
    found = explanation.explain(pid, None if without_sql else credentials.find(login_path), whole)
    if as_json:
        print(json.dumps(found.as_json(), indent=1))
        return
    console = Console()
    _print(console, found.ledger, found.seconds)
    if found.bounds:
        _print_bounds(console, found.bounds, found.verdict, found.reach)
    for note in found.ledger.notes:
        console.print(Text(f"· {note}", style="dim"))
    procedure.show(console, found.sections)


def _print(console: Console, found: Ledger, seconds: float) -> None:
    console.print(Text(f"{found.executable} (process {found.pid}): {found.rss / _MIB:,.1f} MiB resident", style="bold"))
    console.print(Text(f"malloc: {found.malloc}; known from: {', '.join(found.tiers)}; looked at for {seconds * 1e3:.0f} ms"))
    console.print()
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("owner", "resident, MiB", "of RSS", "size, MiB", "source"):
        table.add_column(heading, justify="right" if "MiB" in heading or heading == "of RSS" else "left")
    for line in found.lines:
        source = f"{line.source}: {line.note}" if line.note else line.source
        table.add_row(line.owner, *_cells(line.resident, found.rss), f"{line.size / _MIB:,.1f}", Text(source, style="dim"))
        for who, size in line.parts:
            table.add_row(Text(f"  {who}", style="dim"), "", "", Text(f"{size / _MIB:,.1f}", style="dim"), "")
    table.add_row("rest: pages that no class claims", *_cells(found.rest, found.rss), "", "")
    table.add_row(Text("sum", style="bold"), *_cells(found.rss, found.rss), "", "")
    console.print(table)
    console.print()
    unowned, share = _cells(found.unowned, found.rss)
    console.print(f"unowned: {unowned} MiB ({share}) that no owner claims, unlabelled heap included")
    beside = [f"{what} {size / _MIB:,.1f} MiB" for what, size in found.beside.items() if size]
    if beside:
        console.print(f"beside RSS: {', '.join(beside)}")
    within = [f"{what} {size / _MIB:,.1f} MiB" for what, size in found.within.items() if size]
    if within:
        console.print(f"within RSS, whatever the line: {', '.join(within)}")


def _print_bounds(console: Console, found: Bounds, verdict: str | None, reach: int | None) -> None:
    once, each, more, plain, worst, capped, grown = (
        f"{size / _MIB:,.1f} MiB"
        for size in (found.once, found.connection, found.statement, found.plain, found.worst, found.capped, reach or 0)
    )
    console.print()
    console.print(Text("what the configuration allows, whatever is used", style="bold"))
    console.print(
        f"once {once}; each of {found.connections} connections {each}, and {more} for a sort, join and temporary table"
    )
    console.print(f"all connections: {plain}; each with one of these: {worst}")
    for cap in found.caps:
        console.print(f"capped by {cap}")
    if found.capped < found.worst:
        console.print(f"with the limits in force: {capped}")
    console.print(f"from here RSS can still grow to {grown}, and beyond it with several of: {', '.join(_names(found.more))}")
    console.print(Text(f"{verdict}", style="bold"))


def _names(more: list[str]) -> list[str]:
    return [text.partition(" ")[0] for text in more]


def _cells(size: int, rss: int) -> tuple[str, str]:
    return f"{size / _MIB:,.1f}", f"{size / rss:.1%}"
