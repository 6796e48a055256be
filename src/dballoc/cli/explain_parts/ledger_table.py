"""An explanation on the terminal: verdicts, ledger, bounds of the configuration."""

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dballoc.cli.explain_parts.explain_request import LedgerView
from dballoc.document.terminal import start_grid, start_list
from dballoc.explain.checklist.section import ChecklistSection, format_cell, list_numeric_columns
from dballoc.explain.difference import Difference, compute_cpu_share, describe_vsz_and_cpu
from dballoc.explain.explanation import Explanation
from dballoc.explain.ledger.configuration_limits import Bounds
from dballoc.explain.ledger.ledger import Ledger
from dballoc.explain.ledger.ledger_line import LedgerLine
from dballoc.explain.verdicts.verdict import Level, MemoryVerdict
from dballoc.ground.numbers import mebibytes, percent, signed_mebibytes, with_unit

_MARKS: dict[Level, tuple[str, str]] = {
    "problem": ("✗", "red"),
    "notice": ("!", "yellow"),
    "open": ("?", "cyan"),
    "fine": ("✓", "green"),
}

# Lines with less of RSS than that are folded.
SMALL = 0.01

# A checklist's table with more columns does not fit a terminal: each of its rows is shown as a
# list, as the clients do it for \\G.
_MOST_COLUMNS = 8

# As much as 80 columns leave beside the figures, and enough for any owner's name on one line.
_SOURCES_WIDTH = 46


def print_explanation(
    console: Console, explanation: Explanation, view: LedgerView, cost: float | None = None
) -> None:
    """Print its answer, verdicts, ledger, bounds, notes and checklist: one screen, if there is not
    much to say. ``cost``: seconds of CPU that the look has taken, None of a saved one.
    """
    ledger = explanation.ledger
    console.print(
        Text(
            f"{ledger.executable} (process {ledger.pid}): {mebibytes(ledger.rss)} MiB resident",
            style="bold",
        )
    )
    origin = f"known from: {', '.join(ledger.tiers)}; read in {explanation.seconds * 1e3:.0f} ms"
    origin += f", CPU {cost * 1e3:.0f} ms" if cost is not None else ""
    console.print(Text(f"malloc: {ledger.malloc}; {origin}"))
    if vsz_and_cpu := describe_vsz_and_cpu([explanation]):
        console.print(Text(vsz_and_cpu))
    console.print()
    console.print(Text(explanation.answer, style="bold"))
    console.print()
    print_verdicts(console, explanation.verdicts, short_notices=not view.all_lines)
    console.print()
    _print_ledger(console, ledger, view)
    if explanation.bounds and view.all_lines:
        _print_bounds(console, explanation.bounds, explanation.verdict, explanation.reach)
    elif explanation.bounds:
        reach = _format_mib(explanation.reach or 0)
        console.print(f"by its settings RSS can still grow to {reach}: {explanation.verdict}")
    for note in ledger.notes:
        console.print(Text(f"· {note}", style="dim"))
    print_checklist(console, explanation.sections)


def choose_mark(level: Level) -> tuple[str, str]:
    """Return the sign of a level and its colour: colour alone never carries the meaning."""
    return _MARKS[level]


def print_verdicts(
    console: Console, verdicts: Sequence[MemoryVerdict], short_notices: bool = False
) -> None:
    """Print each with its evidence and what to do about it; with ``short_notices`` only the
    headline of notices, which need no action.
    """
    for verdict in verdicts:
        sign, colour = choose_mark(verdict.level)
        console.print(Text.assemble((f"{sign} ", colour), verdict.headline))
        if short_notices and verdict.level == "notice":
            continue
        if verdict.evidence:
            console.print(
                Padding(Text("; ".join(verdict.evidence), style="dim"), (0, 0, 0, 4), expand=False)
            )
        for remedy in verdict.remedies:
            row = Table.grid(padding=(0, 1, 0, 0))
            row.add_row("→", Text(remedy))
            console.print(Padding(row, (0, 0, 0, 4), expand=False))
    if short_notices and any(verdict.level == "notice" for verdict in verdicts):
        console.print(
            Text("  --all says what is behind the lines with !, and what can be done", style="dim")
        )


def _print_ledger(console: Console, ledger: Ledger, view: LedgerView) -> None:
    console.print(_make_ledger_table(ledger, view))
    console.print()
    least, most = ledger.unowned_bounds
    unowned, share = _format_cells(least, ledger.rss)
    if most > least:
        unowned, share = (
            f"{a} to {b}"
            for a, b in zip((unowned, share), _format_cells(most, ledger.rss), strict=True)
        )
    console.print(
        f"unowned: {unowned} MiB ({share}) that no owner claims, unlabelled heap included"
    )
    beside = [f"{name} {_format_mib(size)}" for name, size in ledger.beside.items() if size]
    if beside:
        console.print(f"beside RSS: {', '.join(beside)}")
    within = [f"{name} {_format_mib(size)}" for name, size in ledger.within.items() if size]
    if within:
        console.print(f"within RSS, whatever the line: {', '.join(within)}")


def _make_ledger_table(ledger: Ledger, view: LedgerView) -> Table:
    table = start_grid([])
    if view.sources:
        table.add_column("owner", width=_SOURCES_WIDTH)  # below its name, where the figure is from
    else:
        table.add_column("owner", no_wrap=True)
    for heading in ("resident, MiB", "of RSS", *(["size, MiB"] if view.sources else [])):
        table.add_column(heading, justify="right", no_wrap=True)
    shown, folded = fold_small_lines(ledger.lines, ledger.rss, view.all_lines)
    for line in shown:
        table.add_row(
            Text(line.owner),
            *_format_cells(line.resident, ledger.rss),
            *_format_sizes(view, line.size),
        )
        if bounds := line.describe_bounds():
            table.add_row(Padding(Text(bounds, style="dim"), (0, 0, 0, 2)))
        if view.all_lines:
            requested = " asked for" if line.confidence == "labelled" else ""
            for user, size in line.parts:
                table.add_row(Text(f"  {user}: {_format_mib(size)}{requested}", style="dim"))
        if view.sources:
            source = f"{line.source}: {line.note}" if line.note else line.source
            table.add_row(Padding(Text(source, style="dim"), (0, 0, 0, 2)))
    if folded:
        table.add_row(
            f"{len(folded)} lines under {percent(SMALL, 0)}; --all shows them",
            *_format_cells(sum(line.resident for line in folded), ledger.rss),
        )
    table.add_row("rest: pages that no class claims", *_format_cells(ledger.rest, ledger.rss))
    table.add_row(Text("sum", style="bold"), *_format_cells(ledger.rss, ledger.rss))
    return table


def fold_small_lines(
    lines: Sequence[LedgerLine], rss: int, all_lines: bool
) -> tuple[list[LedgerLine], list[LedgerLine]]:
    """Return the lines of a ledger of ``rss`` bytes to show, the largest first, and those to fold
    into one: none with ``all_lines``, nor one alone.
    """
    in_order = sorted(lines, key=lambda line: -line.resident)
    small = [] if all_lines else [line for line in in_order if line.resident < SMALL * rss]
    return (in_order, []) if len(small) < 2 else (in_order[: -len(small)], small)


def _format_sizes(view: LedgerView, size: int) -> list[str]:
    return [mebibytes(size)] if view.sources else []


def _print_bounds(console: Console, bounds: Bounds, verdict: str | None, reach: int | None) -> None:
    console.print()
    console.print(Text("what the configuration allows, whatever is used", style="bold"))
    console.print(
        f"once {_format_mib(bounds.once)}; each of {bounds.connections} connections "
        f"{_format_mib(bounds.connection)}, and {_format_mib(bounds.statement)} for a sort, join "
        "and temporary table"
    )
    console.print(
        f"all connections: {_format_mib(bounds.plain)}; each with one of these: "
        f"{_format_mib(bounds.worst)}"
    )
    for cap in bounds.caps:
        console.print(f"capped by {cap}")
    if bounds.capped < bounds.worst:
        console.print(f"with the limits in force: {_format_mib(bounds.capped)}")
    several = ", ".join(text.partition(" ")[0] for text in bounds.more)
    console.print(
        f"from here RSS can still grow to {_format_mib(reach or 0)}, and beyond it with several "
        f"of: {several}"
    )
    console.print(Text(f"{verdict}", style="bold"))


def _format_mib(size: int) -> str:
    return f"{mebibytes(size)} MiB"


def _format_cells(size: int, rss: int) -> tuple[str, str]:
    return mebibytes(size), f"{size / rss:.1%}"


def print_difference(console: Console, difference: Difference) -> None:
    """Print what grew between two snapshots; lines that did not change are left out."""
    console.print(Text(difference.sentence, style="bold"))
    console.print()
    headings = ("owner", "before, MiB", "after, MiB", "change, MiB", "of the change")
    table = start_list(headings, {"owner"})
    for line in difference.changes:
        if line.change:
            share = percent(line.change / difference.rss, 0) if difference.rss else ""
            change = signed_mebibytes(line.change)
            table.add_row(
                Text(line.owner),
                mebibytes(line.before),
                mebibytes(line.after),
                change,
                share.replace("-", "−"),
            )
            if bounds := line.describe_bounds():
                table.add_row(Padding(Text(bounds, style="dim"), (0, 0, 0, 2)))
    sums = (
        mebibytes(difference.before.ledger.rss),
        mebibytes(difference.after.ledger.rss),
        signed_mebibytes(difference.rss),
        "",
    )
    table.add_row(Text("RSS", style="bold"), *sums)
    console.print(table)
    beside = [
        f"{name} {with_unit(a)} → {with_unit(b)}"
        for name, (a, b) in difference.beside.items()
        if a != b
    ]
    if beside:
        console.print(f"\nbeside RSS: {', '.join(beside)}")
    if difference.vsz:
        console.print(f"VSZ {with_unit(difference.vsz[0])} → {with_unit(difference.vsz[1])}")
    cpu_share = compute_cpu_share(difference.before, difference.after)
    if cpu_share is not None:
        console.print(f"CPU {percent(cpu_share)} of one between them")
    for note in difference.notes:
        console.print(Text(f"· {note}", style="dim"))


def print_checklist(console: Console, sections: Sequence[ChecklistSection]) -> None:
    """Print each with its title, its source, and its table or why it is missing."""
    for section in sections:
        console.print()
        console.print(Text(section.title, style="bold"))
        console.print(Text(f"from: {section.source}", style="dim"), soft_wrap=True)
        rows = [[Text(format_cell(cell)) for cell in row] for row in section.rows]
        if section.missing:
            console.print(Text(section.missing))
        elif len(section.columns) > _MOST_COLUMNS:
            for number, row in enumerate(rows, 1):
                console.print(Text(f"row {number}", style="dim"))
                grid = Table.grid(padding=(0, 2, 0, 2))
                grid.add_column(justify="right")
                for heading, cell in zip(section.columns, row, strict=True):
                    grid.add_row(Text(heading, style="dim"), cell)
                console.print(grid)
        else:
            table = start_grid([])
            table.show_header = section.columns[0] != "what"
            for heading, numeric in zip(
                section.columns, list_numeric_columns(section), strict=True
            ):
                table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
            for row in rows:
                table.add_row(*row)
            console.print(table)
        if section.note:
            console.print(Text(f"· {section.note}", style="dim"))
