"""``dballoc profile contention``: what a live server's threads wait for, and which share of it lies
below malloc.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from dballoc.cli.shared.safe_output import Console, safe
from dballoc.errors import Failure
from dballoc.explain import find_server
from dballoc.host.guardian.guardian_client import Custody
from dballoc.profile.contention import contention as watch
from dballoc.profile.contention import malloc_paths, wait_split
from dballoc.profile.contention.contention import STACKS, Contention
from dballoc.profile.contention.dominant_frames import Row, dominant
from dballoc.profile.contention.wait_split import GROUPS, Cost, Split
from dballoc.profile.symbols import cpp_names


def contention(
    pid: Annotated[
        int | None, typer.Option(metavar="PID", help="The server's process.", min=1)
    ] = None,
    socket: Annotated[
        str | None, typer.Option(metavar="PATH", help="The server that listens there.")
    ] = None,
    service: Annotated[
        str | None, typer.Option(metavar="UNIT", help="The main process of a systemd unit.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long to watch.", min=0.5, max=3600)
    ] = 10,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep profiles and flame graphs there.")
    ] = None,
    method: Annotated[
        Literal["auto", "perf", "proc"],
        typer.Option(
            help="perf: call stacks. proc: /proc alone, no stacks. auto: perf, or proc where that "
            "is not permitted."
        ),
    ] = "auto",
    stacks: Annotated[
        int, typer.Option(metavar="N", help="Call stacks to record, about; 32 KiB each.", min=100)
    ] = STACKS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Say what a live server's threads wait for: locks and kernel memory calls below malloc, and
    all the rest.

    Without --pid, --socket or --service: the only server that runs here. Nothing is stopped,
    restarted or injected.
    """
    pid = find_server.find(pid, socket, service)
    with Custody(adopt=True) as custody:
        found = watch.look(
            pid, seconds, custody, method=method, stacks=stacks, title=watch.name_of(pid)
        )
    value = watch.counted(found.switches)
    rows = dominant({"share": found.switches}, value)
    said = wait_split.split(found.switches)
    files = _keep(found, out) if out else []
    if as_json:
        print(json.dumps(_as_json(pid, found, said, rows, value, files), indent=1))
        return
    _print(Console(), found, said, rows, value, files)


def _keep(found: Contention, out: Path) -> list[Path]:
    try:
        return watch.keep(found, out)
    except OSError as error:
        raise Failure(f"{error.filename or out}: cannot be written: {error.strerror}") from None


def _as_json(
    pid: int, found: Contention, said: Split, rows: list[Row], value: str, files: list[Path]
) -> dict[str, Any]:
    def costs(named: Any) -> dict[str, Any]:
        return {name: asdict(cost) | {"share": said.share(cost)} for name, cost in named.items()}

    return {
        "pid": pid,
        "method": found.method,
        "seconds": found.switches.seconds,
        "facts": dict(found.switches.facts),
        "waits": asdict(said.total),
        "preemptions": said.preempted,
        "preemptions_in_malloc": said.preempted_in_malloc,
        "malloc": {
            "share": said.share(said.below),
            "groups": costs(said.malloc),
            "calls": costs(said.calls),
        },
        "elsewhere": costs(said.elsewhere),
        "frames": [
            {
                "function": r.function,
                "module": r.module,
                "share": r.shares["share"],
                "allocator": r.allocator,
            }
            for r in rows
        ],
        "paths": [asdict(path) for path in malloc_paths.into_malloc(found.switches, value)],
        "files": [str(file) for file in files],
    }


def _print(
    console: Console, found: Contention, said: Split, rows: list[Row], value: str, files: list[Path]
) -> None:
    facts = found.switches.facts
    console.print(
        Text(f"{safe(found.switches.title)}, {found.switches.seconds:.1f} s", style="bold")
    )
    console.print(Text(found.method), soft_wrap=True)
    if said.counted:
        console.print(
            f"{int(facts['switches']):,} switches, {said.preemption:.1%} of them preemptions; "
            f"{facts['stacks']} call stacks, "
            f"{facts['stacks cut off']} of them cut off; {facts['records lost']} records lost, "
            "throttled "
            f"{facts['times throttled']} times",
            soft_wrap=True,
            highlight=False,
        )
    if "stopped early" in facts:
        console.print(
            f"stopped early: {safe(str(facts['stopped early']))}", soft_wrap=True, highlight=False
        )
    console.print()
    console.print(_split_table(said))
    console.print()
    console.print(Text(_verdict(said), style="bold"), soft_wrap=True)
    found_paths = malloc_paths.into_malloc(found.switches, value)
    if found_paths:
        console.print()
        console.print(Text("the ways into malloc that wait most", style="bold"))
        for path in found_paths:
            way = " → ".join(safe(cpp_names.short(function)) for function in path.functions)
            console.print(Text(f"{path.share:6.1%}  {path.wait}: {way}"), soft_wrap=True)
    if rows:
        console.print()
        console.print(_frames(rows))
    console.print()
    for file in files:
        console.print(Text(f"wrote {file}"), soft_wrap=True)
    if not files:
        console.print(
            Text("nothing was kept; --out DIR keeps the profile and its flame graphs", style="dim")
        )


def _split_table(said: Split) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    of = "of all waits" if said.counted else "of the time waited"
    for heading in (
        "waits for",
        "below malloc",
        "elsewhere",
        "time below malloc",
        "queued for a CPU",
        "time elsewhere",
    ):
        table.add_column(heading, justify="left" if heading == "waits for" else "right")
    for group, title in GROUPS.items():
        below, above = said.malloc.get(group, Cost()), said.elsewhere.get(group, Cost())
        if below != Cost() or above != Cost():
            table.add_row(title, *_cells(said, below, above))
    table.add_row(Text(f"all, {of}", style="bold"), *_cells(said, said.below, said.above))
    return table


def _cells(said: Split, below: Cost, above: Cost) -> list[str]:
    return [
        f"{said.share(below):.1%}",
        f"{said.share(above):.1%}",
        f"{below.waited:,.2f} s",
        f"{below.queued:,.2f} s",
        f"{above.waited:,.2f} s",
    ]


def _verdict(said: Split) -> str:
    lock, memory = (said.malloc.get(group, Cost()) for group in ("lock", "memory"))
    of = "of all waits" if said.counted else "of the time waited"
    calls = ", ".join(
        f"{name} {said.share(cost):.1%}"
        for name, cost in sorted(said.calls.items(), key=lambda c: -c[1].waits)
    )
    return (
        f"below malloc: {said.share(said.below):.1%} {of}; locks {said.share(lock):.1%}, kernel "
        "memory calls "
        f"{said.share(memory):.1%}" + (f" ({calls})" if calls else "")
    )


def _frames(rows: list[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("function, with what it calls", "of all waits", "", "module"):
        table.add_column(heading, justify="right" if heading == "of all waits" else "left")
    for row in rows:
        mark = "malloc" if row.allocator else ""
        table.add_row(
            Text(safe(cpp_names.short(row.function))),
            f"{row.shares['share']:.1%}",
            mark,
            Text(safe(row.module), style="dim"),
        )
    return table
