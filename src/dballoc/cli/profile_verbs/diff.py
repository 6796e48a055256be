"""``dballoc profile diff``: what grew and what shrank between two profiles."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from dballoc.cli.profile_verbs import profile_files
from dballoc.cli.shared.safe_output import Console
from dballoc.profile import profile_tables
from dballoc.profile.amounts import amount, signed
from dballoc.profile.model import Profile, Value
from dballoc.profile.profile_tables import Growth
from dballoc.profile.symbols import cpp_names


def diff(
    before: Annotated[
        Path, typer.Argument(metavar="BEFORE", help="A profile (.profile.json.gz): what was.")
    ],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="Another one: what is.")],
    value: Annotated[
        str | None, typer.Option(metavar="KEY", help="Which value, like live; default: the first.")
    ] = None,
    rows: Annotated[int, typer.Option(help="Lines of each table.", min=1)] = 10,
    html: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write a differential flame graph there.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every call stack and function as JSON.")
    ] = False,
) -> None:
    """Say what grew and what shrank between two profiles, by call stack and by function, with
    standard errors if known.
    """
    profiles, of = profile_files.read([before, after], value)
    old, new = profiles
    if html:
        # It takes a while to import.
        from dballoc.profile import flamegraph

        page = flamegraph.difference(
            old, new, of.key, f"{of.title[:1].upper()}{of.title[1:]}: {before.name} → {after.name}"
        )
        profile_files.write(html, page.encode("utf-8", "backslashreplace"))
    stacks = profile_tables.growth(old, new, of.key)
    functions = profile_tables.growth_by_function(old, new, of.key)
    if as_json:
        print(json.dumps(_as_json(profiles, of, stacks, functions), indent=1))
        return
    console = Console(highlight=False)
    _print_totals(console, profiles, of)
    for heading, found, cells in (
        ("by call stack, innermost first", stacks, profile_tables.innermost),
        ("by function, with what it called", functions, lambda frames: cpp_names.short(frames[0])),
    ):
        grown = [row for row in found if row.grown > 0][:rows]
        shrunk = [row for row in found[::-1] if row.grown < 0][:rows]
        for said, some in (("grew", grown), ("shrank", shrunk)):
            _print(console, f"{said}, {heading}", [(cells(row.frames), row) for row in some], of)
    if html:
        console.print(f"Flame graph: {html}", soft_wrap=True, markup=False)


def _print_totals(console: Console, profiles: Sequence[Profile], of: Value) -> None:
    old, new = (profile.total(of.key) for profile in profiles)
    console.print(
        Text(
            f"{of.title}: {amount(old, of.unit)} → {amount(new, of.unit)} "
            f"({signed(new - old, of.unit)})",
            style="bold",
        )
    )
    for name, profile in zip(("before", "after"), profiles, strict=True):
        console.print(f"{name}: {profile.title}", markup=False)
    first, second = (profile.seconds for profile in profiles)
    if abs(first - second) > 0.05 * max(first, second):
        times = f"{amount(first, 'seconds')} before and {amount(second, 'seconds')} after"
        console.print(f"The profiles cover {times}: what grows with time differs for that alone.")


def _print(console: Console, heading: str, rows: Sequence[tuple[str, Growth]], of: Value) -> None:
    if not rows:
        return
    console.print()
    console.print(Text(heading, style="bold"))
    shown = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("difference", "± standard error", "before", "after"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("", overflow="fold")
    for name, row in rows:
        error = "" if row.error is None else amount(row.error, of.unit)
        shown.add_row(
            signed(row.grown, of.unit),
            error,
            amount(row.before, of.unit),
            amount(row.after, of.unit),
            Text(name),
        )
    console.print(shown)


def _as_json(
    profiles: Sequence[Profile], of: Value, stacks: Sequence[Growth], functions: Sequence[Growth]
) -> dict[str, Any]:
    sides = {
        name: {
            "title": profile.title,
            "total": profile.total(of.key),
            "taken": profile.taken,
            "seconds": profile.seconds,
        }
        for name, profile in zip(("before", "after"), profiles, strict=True)
    }
    rows = {
        "stacks": [{"stack": list(row.frames)} | _figures(row) for row in stacks],
        "functions": [{"function": row.frames[0]} | _figures(row) for row in functions],
    }
    return {"value": of._asdict()} | sides | rows


def _figures(row: Growth) -> dict[str, float | None]:
    return {"grown": row.grown, "before": row.before, "after": row.after, "error": row.error}
