"""``dballoc list``: what the catalogue names, and what of it is here."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dballoc.doctor import inventory
from dballoc.doctor.inventory import Item, Shipped, Workload
from dballoc.errors import UsageError

Row = dict[str, Any]


Part = Literal["allocators", "servers", "workloads", "experiments", "settings"]


def list_(
    what: Annotated[Part, typer.Argument(help="Which part of the catalogue.")],
    name: Annotated[
        str | None, typer.Argument(metavar="[ALLOCATOR]", help="With settings: of this allocator alone, or NAME@VERSION.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """List what an experiment can name, and what of it is on this machine."""
    if name is not None and what != "settings":
        raise UsageError(f"list {what}: {name!r} is one word too many; a name goes with dballoc list settings")
    rows: Sequence[Row]
    match what:
        case "allocators":
            rows = [_item(item, {"settings": "settings"}) for item in inventory.allocators()]
        case "servers":
            rows = [_item(item, {"engines": "engines"}) for item in inventory.servers()]
        case "workloads":
            rows = [_workload(workload) for workload in inventory.workloads()]
        case "experiments":
            rows = [_experiment(shipped) for shipped in inventory.experiments()]
        case "settings":
            rows = [dataclasses.asdict(setting) for setting in inventory.settings(name)]
            if not rows:
                raise UsageError(f"{name} has no settings")
    if as_json:
        print(json.dumps(rows, indent=1, default=str))
    else:
        _print(rows)


def _item(item: Item, more: dict[str, str]) -> Row:
    return {
        "name": item.name,
        "what": item.title,
        "version": item.version,
        "here": [str(path) for path in item.paths] if item.version else None,
        "remedy": None if item.version else item.remedy,
        **{heading: item.more[key] for heading, key in more.items()},
    }


def _workload(workload: Workload) -> Row:
    return {
        "name": workload.name,
        "what": workload.title,
        "writes": workload.writes,
        "here": workload.script,
        "remedy": None if workload.script else "apt-get install sysbench",
    }


def _experiment(shipped: Shipped) -> Row:
    experiment = shipped.experiment
    return {
        "name": shipped.name,
        "what": shipped.title,
        "variants": [variant.name for variant in experiment.variant],
        "workloads": experiment.workloads,
        "threads": experiment.threads,
        "lacking": list(shipped.lacking),
    }


def _print(rows: Sequence[Row]) -> None:
    """A table on a terminal; in a pipe one line a row, its cells parted by tabs, under a line of headings."""
    console = Console()
    if not console.is_terminal:
        print("\t".join(rows[0]))
        for row in rows:
            print("\t".join(_cell(value, ", ") for value in row.values()))
        return
    # What is here has a path, and what isn't a remedy: one column holds either.
    headings = [key for key in rows[0] if key != "remedy"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=heading == "name")
    for row in rows:
        table.add_row(*(_text(row, heading) for heading in headings))
    console.print(table)


def _text(row: Row, heading: str) -> Text:
    if heading == "here" and row.get("remedy"):
        return Text(f"→ {row['remedy']}", style="cyan")
    return Text(_cell(row[heading], "\n"), style="dim" if row.get("remedy") else "")


def _cell(value: Any, joint: str) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list():
            return joint.join(map(str, value))
        case _:
            return str(value)
