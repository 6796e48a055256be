"""What ``dballoc profile contention`` prints and writes."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from dballoc.cli.shared.safe_output import Console, safe
from dballoc.document.terminal import start_list
from dballoc.ground.errors import Failure
from dballoc.host.process.handle import Process
from dballoc.profile.contention import contention, malloc_paths, waits_below_malloc
from dballoc.profile.contention.contention import Contention
from dballoc.profile.contention.dominant_frames import DominantFrame, rank_dominant_frames
from dballoc.profile.contention.waits_below_malloc import WAIT_GROUPS, WaitCost, WaitSplit
from dballoc.profile.symbols import cpp_names


@dataclass(kw_only=True)
class ContentionReport:
    """The printed report on a process's waits. ``measure``: the key of the value that shares refer
    to; ``split``: its waits below malloc and elsewhere; ``rows``: the functions that wait most;
    ``files``: what was written.
    """

    process: Process
    result: Contention
    measure: str
    split: WaitSplit
    rows: list[DominantFrame]
    files: list[Path] = field(default_factory=list)


def make_report(process: Process, result: Contention) -> ContentionReport:
    """Sum up a process's waits."""
    measure = contention.choose_value(result.switches)
    return ContentionReport(
        process=process,
        result=result,
        measure=measure,
        split=waits_below_malloc.split_waits(result.switches),
        rows=rank_dominant_frames({"share": result.switches}, measure),
    )


def save_profiles(result: Contention, out: Path) -> list[Path]:
    """Write the profiles and flame graphs into a directory; return their paths. Raises Failure if
    one cannot be written.
    """
    try:
        return contention.save_profiles(result, out)
    except OSError as error:
        raise Failure(f"{error.filename or out}: cannot be written: {error.strerror}") from None


def make_document(report: ContentionReport) -> dict[str, Any]:
    """Return the report as --json prints it."""
    result, split = report.result, report.split

    def costs(named: Any) -> dict[str, Any]:
        return {name: asdict(cost) | {"share": split.share(cost)} for name, cost in named.items()}

    return {
        "pid": report.process.pid,
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
            for r in report.rows
        ],
        "paths": [
            asdict(path) for path in malloc_paths.rank_malloc_paths(result.switches, report.measure)
        ],
        "files": [str(file) for file in report.files],
    }


def print_report(console: Console, report: ContentionReport) -> None:
    """Print the report as tables."""
    result, split = report.result, report.split
    switches = result.switches
    facts = switches.facts
    console.print(Text(f"{safe(switches.title)}, {switches.seconds:.1f} s", style="bold"))
    console.print(Text(result.method), soft_wrap=True)
    if split.counted:
        console.print(
            f"{switches.read_count('switches'):,} switches, {split.preemption:.1%} of them "
            "preemptions; "
            f"{facts['stacks']} call stacks, {facts['stacks cut off']} of them cut off; "
            f"{facts['records lost']} records lost, throttled {facts['times throttled']} times",
            soft_wrap=True,
            highlight=False,
        )
    for name in ("files left out", "stopped early"):
        if name in facts:
            console.print(f"{name}: {safe(str(facts[name]))}", soft_wrap=True, highlight=False)
    console.print()
    console.print(_make_split_table(split))
    console.print()
    console.print(Text(_format_verdict(split), style="bold"), soft_wrap=True)
    malloc_ways = malloc_paths.rank_malloc_paths(result.switches, report.measure)
    if malloc_ways:
        console.print()
        console.print(Text("the call paths into malloc that wait most", style="bold"))
        for path in malloc_ways:
            functions = " → ".join(
                safe(cpp_names.shorten_name(function)) for function in path.functions
            )
            console.print(Text(f"{path.share:6.1%}  {path.wait}: {functions}"), soft_wrap=True)
    if report.rows:
        console.print()
        console.print(_make_frame_table(report.rows))
    console.print()
    for file in report.files:
        console.print(Text(f"wrote {file}"), soft_wrap=True)
    if not report.files:
        console.print(
            Text("no files kept; --out DIR keeps the profile and its flame graphs", style="dim")
        )


def _make_split_table(split: WaitSplit) -> Table:
    unit = "of all waits" if split.counted else "of the time waited"
    times = ("time below malloc", "queued for a CPU", "time elsewhere")
    table = start_list(("waits for", "below malloc", "elsewhere", *times), {"waits for"})
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
    texts = ("function, with what it calls", "", "module")
    table = start_list((texts[0], "of all waits", *texts[1:]), texts)
    for row in rows:
        mark = "malloc" if row.allocator else ""
        table.add_row(
            Text(safe(cpp_names.shorten_name(row.function))),
            f"{row.shares['share']:.1%}",
            mark,
            Text(safe(row.module), style="dim"),
        )
    return table
