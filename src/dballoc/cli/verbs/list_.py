"""``dballoc list``: what the catalogue names, and what of it is here."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from dballoc.cli.extras import require_extra
from dballoc.cli.shared import flags
from dballoc.cli.shared.safe_output import Console, say
from dballoc.doctor import inventory
from dballoc.doctor.inventory import (
    InventoryItem,
    RepeatedPost,
    ShippedExperiment,
    Workload,
)
from dballoc.errors import UsageError
from dballoc.experiment.model import BUILTIN, Server

Row = dict[str, Any]


# Not of the catalogue: each server has its own.
_BUILTIN: Row = {
    "name": BUILTIN,
    "what": "what the server was built with",
    "version": "",
    "here": [],
    "remedy": None,
    "settings": "",
    "note": "",
}

Part = Literal["allocators", "servers", "workloads", "experiments", "settings"]


def list_(
    part: Annotated[Part, typer.Argument(metavar="WHAT", help="Which part of the catalogue.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]…", help="List only these; settings: those of these allocators."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    prove: Annotated[
        bool,
        typer.Option(
            "--prove", help="Start each one that is here, and prove which malloc it uses."
        ),
    ] = False,
    post: Annotated[
        bool,
        typer.Option(
            "--post",
            help="With experiments: what the post that one repeats states of its set-up, and what "
            "the run does.",
        ),
    ] = False,
    server: flags.Server = None,
    basedir: flags.Basedir = None,
    engine: flags.Engine = None,
) -> None:
    """List what an experiment can name, what of it is on this machine, and what can be fetched.

    --prove, with allocators, starts --server (default: this machine's MariaDB) under each one that
    is here; with servers, it starts each one that is here, as it was built. A start that fails is
    in the list with its reason.
    """
    _check_flags(part, prove, post)
    rows = _list_rows(part, names or [], post)
    if names and part != "settings":
        rows = _chosen(part, rows, names, post)
    if prove:
        rows = _proved(
            part, rows, Server.model_validate(_given(use=server, basedir=basedir, engine=engine))
        )
    if as_json:
        print(json.dumps(rows, indent=1, default=str))
    elif post:
        _print(_spread_comparisons(rows))
    else:
        _print(rows)


def _list_rows(part: Part, names: list[str], post: bool) -> Sequence[Row]:
    """Return a row for each entry of a part, for each setting of the allocators ``names``, with
    what an experiment's post states if ``post``. UsageError if an allocator has no settings.
    """
    match part:
        case "allocators":
            items = [*inventory.list_allocators(), *inventory.list_fetchable("allocator")]
            more = {"settings": "settings", "note": "note"}
            return [_BUILTIN, *(_item(item, more) for item in items)]
        case "servers":
            items = [*inventory.list_servers(), *inventory.list_fetchable("server")]
            return [_item(item, {"engines": "engines"}) for item in items]
        case "workloads":
            return [_workload(workload) for workload in inventory.list_workloads()]
        case "experiments":
            if post:
                return [_repeated_post(repeated) for repeated in inventory.list_repeated_posts()]
            return [_experiment(shipped) for shipped in inventory.list_experiments()]
        case "settings":
            every: list[str | None] = [*names] or [None]
            rows = [
                _setting(setting) for name in every for setting in inventory.list_settings(name)
            ]
            if not rows:
                raise UsageError(f"{', '.join(names)}: it has no settings")
            return rows


def _check_flags(part: Part, prove: bool, post: bool) -> None:
    if prove and part not in ("allocators", "servers"):
        raise UsageError(f"--prove is for allocators and servers, not for {part}")
    if post and part != "experiments":
        raise UsageError(f"--post is for experiments, not for {part}")


def _chosen(part: str, rows: Sequence[Row], names: list[str], post: bool) -> Sequence[Row]:
    kind, flag = (f"{part} that repeat a post", " --post") if post else (part, "")
    by_name = {row["name"]: row for row in rows}
    if unknown := [name for name in names if name not in by_name]:
        raise UsageError(
            f"no {unknown[0]!r} among the {kind}; dballoc list {part}{flag} says what there is"
        )
    return [by_name[name] for name in dict.fromkeys(names)]


def _given(use: str | None, basedir: Path | None, engine: str | None) -> Row:
    server_table = {
        "use": use,
        "basedir": str(basedir.absolute()) if basedir else None,
        "engine": engine,
    }
    return {k: v for k, v in server_table.items() if v is not None}


def _proved(part: str, rows: Sequence[Row], server: Server) -> Sequence[Row]:
    """Return the rows of what is on this machine, each with its proof. Each start takes a second or
    two, so notices show the progress.
    """
    require_extra("bench", "dballoc list --prove")
    installed = [row for row in rows if row["here"] is not None]
    if not installed:
        raise UsageError(f"--prove: none of these {part} is on this machine; {rows[0]['remedy']}")
    # Here: only --prove starts servers.
    from dballoc.campaign.preparation.allocator_matrix import prove_allocators
    from dballoc.cli.shared.campaign_display import PlainDisplay

    display = PlainDisplay(Console(stderr=True))
    if part == "allocators":
        proofs = list(prove_allocators(server, [row["name"] for row in installed], display))
    else:
        servers = [
            server.model_copy(update={"use": row["name"], "basedir": None}) for row in installed
        ]
        proofs = [proof for each in servers for proof in prove_allocators(each, [BUILTIN], display)]
    for row, proof in zip(installed, proofs, strict=True):
        row |= (
            {"version": proof.allocator_version or row["version"]} if part == "allocators" else {}
        )
        row |= {
            "proof": proof.words,
            "proved": proof.library is not None,
            "seconds": round(proof.seconds, 2),
        }
    return installed


def _item(item: InventoryItem, more: dict[str, str]) -> Row:
    return {
        "name": item.name,
        "what": item.title,
        "version": item.version,
        "here": [str(path) for path in item.paths] if item.version else None,
        "remedy": None if item.version else item.remedy,
        **{heading: item.more[key] for heading, key in more.items()},
    }


def _setting(setting: inventory.AllocatorSetting) -> Row:
    """Return a row by its fields' names, except for the key that scripts know as ``here``."""
    fields = dataclasses.asdict(setting)
    return {"here" if key == "available" else key: value for key, value in fields.items()}


def _workload(workload: Workload) -> Row:
    return {
        "name": workload.name,
        "what": workload.title,
        "writes": workload.writes,
        "here": workload.script,
        "remedy": None if workload.script else "apt-get install sysbench",
    }


def _experiment(shipped: ShippedExperiment) -> Row:
    experiment = shipped.experiment
    return {
        "name": shipped.name,
        "what": shipped.title,
        "variants": [variant.name for variant in experiment.variant],
        "workloads": experiment.workloads,
        "threads": experiment.threads,
        "lacking": list(shipped.lacking),
    }


def _repeated_post(repeated: RepeatedPost) -> Row:
    return {
        "name": repeated.name,
        "source": repeated.post.source,
        "machine": repeated.post.machine,
        "post": [dataclasses.asdict(compared) for compared in repeated.comparisons],
    }


def _spread_comparisons(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each setting that a post states or that the run has chosen."""
    spread = []
    for row in rows:
        words = ": ".join(filter(None, [row["source"], row["machine"]]))
        source = {"topic": "source", "item": "", "post": words, "run": "", "differs": False}
        spread += [
            {
                "name": row["name"],
                "differs": "≠" if compared["differs"] else "",
                "topic": " ".join(filter(None, [compared["topic"], compared["item"]])),
                "the post": compared["post"],
                "the run": compared["run"],
            }
            for compared in [source, *row["post"]]
        ]
    return spread


def _print(rows: Sequence[Row]) -> None:
    """Print a table on a terminal; in a pipe, a line of headings and one line for each row, with
    tabs between the cells.
    """
    console = Console()
    if not console.is_terminal:
        say("\t".join(rows[0]))
        for row in rows:
            say("\t".join(_cell(value, ", ") for value in row.values()))
        return
    # An installed item has a path, any other a remedy: one column holds either.
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
    return Text(
        _cell(row[heading], "\n" if heading == "here" else ", "),
        style="dim" if row.get("remedy") else "",
    )


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
