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
from dballoc.cli.shared.server_flags import Pid, Service, Socket
from dballoc.errors import Failure
from dballoc.explain import find_server
from dballoc.host.guardian.guardian_client import Custody
from dballoc.profile.contention import contention as watch
from dballoc.profile.contention import malloc_paths, waits_below_malloc
from dballoc.profile.contention.contention import MAX_STACKS, Contention
from dballoc.profile.contention.dominant_frames import DominantFrame, rank_dominant_frames
from dballoc.profile.contention.waits_below_malloc import WAIT_GROUPS, WaitCost, WaitSplit
from dballoc.profile.symbols import cpp_names


def contention(
    pid: Pid = None,
    socket: Socket = None,
    service: Service = None,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long to watch.", min=0.5, max=3600)
    ] = 10,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep profiles and flame graphs there.")
    ] = None,
    method: Annotated[
        Literal["auto", "perf", "proc"],
        typer.Option(
            help="perf: with call stacks. proc: from /proc alone, without stacks. auto: perf, or "
            "proc where perf is not permitted."
        ),
    ] = "auto",
    stacks: Annotated[
        int,
        typer.Option(
            metavar="N", help="About how many call stacks to record; 32 KiB each.", min=100
        ),
    ] = MAX_STACKS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show what a live server's threads wait for: locks and kernel memory calls below malloc, and
    everything else.

    Without --pid, --socket or --service: the only server that runs here. Nothing is stopped,
    restarted or injected.
    """
    pid = find_server.find_server_pid(pid, socket, service)
    with Custody(adopt=True) as custody:
        result = watch.watch_waits(
            pid, seconds, custody, method=method, stacks=stacks, title=watch.name_process(pid)
        )
    measure = watch.choose_value(result.switches)
    rows = rank_dominant_frames({"share": result.switches}, measure)
    split = waits_below_malloc.split_waits(result.switches)
    files = _save_profiles(result, out) if out else []
    if as_json:
        print(json.dumps(_make_document(pid, result, split, rows, measure, files), indent=1))
        return
    _print_result(Console(), result, split, rows, measure, files)


def _save_profiles(result: Contention, out: Path) -> list[Path]:
    try:
        return watch.save_profiles(result, out)
    except OSError as error:
        raise Failure(f"{error.filename or out}: cannot be written: {error.strerror}") from None


def _make_document(
    pid: int,
    result: Contention,
    split: WaitSplit,
    rows: list[DominantFrame],
    measure: str,
    files: list[Path],
) -> dict[str, Any]:
    def costs(named: Any) -> dict[str, Any]:
        return {name: asdict(cost) | {"share": split.share(cost)} for name, cost in named.items()}

    return {
        "pid": pid,
        "method": result.method,
        "seconds": result.switches.seconds,
        "facts": dict(result.switches.facts),
        "waits": asdict(split.total),
        "preemptions": split.preempted,
        "preemptions_in_malloc": split.preempted_in_malloc,
        "malloc": {
            "share": split.share(split.below),
            "groups": costs(split.malloc),
            "calls": costs(split.calls),
        },
        "elsewhere": costs(split.elsewhere),
        "frames": [
            {
                "function": r.function,
                "module": r.module,
                "share": r.shares["share"],
                "allocator": r.allocator,
            }
            for r in rows
        ],
        "paths": [
            asdict(path) for path in malloc_paths.rank_malloc_paths(result.switches, measure)
        ],
        "files": [str(file) for file in files],
    }


def _print_result(
    console: Console,
    result: Contention,
    split: WaitSplit,
    rows: list[DominantFrame],
    measure: str,
    files: list[Path],
) -> None:
    facts = result.switches.facts
    console.print(
        Text(f"{safe(result.switches.title)}, {result.switches.seconds:.1f} s", style="bold")
    )
    console.print(Text(result.method), soft_wrap=True)
    if split.counted:
        console.print(
            f"{int(facts['switches']):,} switches, {split.preemption:.1%} of them preemptions; "
            f"{facts['stacks']} call stacks, {facts['stacks cut off']} of them cut off; "
            f"{facts['records lost']} records lost, throttled {facts['times throttled']} times",
            soft_wrap=True,
            highlight=False,
        )
    if "stopped early" in facts:
        console.print(
            f"stopped early: {safe(str(facts['stopped early']))}", soft_wrap=True, highlight=False
        )
    console.print()
    console.print(_make_split_table(split))
    console.print()
    console.print(Text(_format_verdict(split), style="bold"), soft_wrap=True)
    malloc_ways = malloc_paths.rank_malloc_paths(result.switches, measure)
    if malloc_ways:
        console.print()
        console.print(Text("the call paths into malloc that wait most", style="bold"))
        for path in malloc_ways:
            functions = " → ".join(
                safe(cpp_names.shorten_name(function)) for function in path.functions
            )
            console.print(Text(f"{path.share:6.1%}  {path.wait}: {functions}"), soft_wrap=True)
    if rows:
        console.print()
        console.print(_make_frame_table(rows))
    console.print()
    for file in files:
        console.print(Text(f"wrote {file}"), soft_wrap=True)
    if not files:
        console.print(
            Text("no files kept; --out DIR keeps the profile and its flame graphs", style="dim")
        )


def _make_split_table(split: WaitSplit) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    unit = "of all waits" if split.counted else "of the time waited"
    for heading in (
        "waits for",
        "below malloc",
        "elsewhere",
        "time below malloc",
        "queued for a CPU",
        "time elsewhere",
    ):
        table.add_column(heading, justify="left" if heading == "waits for" else "right")
    for group, title in WAIT_GROUPS.items():
        below, above = split.malloc.get(group, WaitCost()), split.elsewhere.get(group, WaitCost())
        if below != WaitCost() or above != WaitCost():
            table.add_row(title, *_format_cells(split, below, above))
    table.add_row(
        Text(f"all, {unit}", style="bold"), *_format_cells(split, split.below, split.above)
    )
    return table


def _format_cells(split: WaitSplit, below: WaitCost, above: WaitCost) -> list[str]:
    return [
        f"{split.share(below):.1%}",
        f"{split.share(above):.1%}",
        f"{below.waited:,.2f} s",
        f"{below.queued:,.2f} s",
        f"{above.waited:,.2f} s",
    ]


def _format_verdict(split: WaitSplit) -> str:
    lock, memory = (split.malloc.get(group, WaitCost()) for group in ("lock", "memory"))
    unit = "of all waits" if split.counted else "of the time waited"
    calls = ", ".join(
        f"{name} {split.share(cost):.1%}"
        for name, cost in sorted(split.calls.items(), key=lambda c: -c[1].waits)
    )
    return (
        f"below malloc: {split.share(split.below):.1%} {unit}; locks {split.share(lock):.1%}, "
        f"kernel memory calls {split.share(memory):.1%}" + (f" ({calls})" if calls else "")
    )


def _make_frame_table(rows: list[DominantFrame]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("function, with what it calls", "of all waits", "", "module"):
        table.add_column(heading, justify="right" if heading == "of all waits" else "left")
    for row in rows:
        mark = "malloc" if row.allocator else ""
        table.add_row(
            Text(safe(cpp_names.shorten_name(row.function))),
            f"{row.shares['share']:.1%}",
            mark,
            Text(safe(row.module), style="dim"),
        )
    return table
