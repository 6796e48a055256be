"""``dballoc profile diff``: what grew and what shrank between two profiles."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from dballoc.cli.profile_verbs import profile_files
from dballoc.cli.shared.safe_output import Console, print_json
from dballoc.document.terminal import start_list
from dballoc.profile import profile_tables
from dballoc.profile.amounts import format_amount, format_signed_amount
from dballoc.profile.model import Profile, Value
from dballoc.profile.profile_tables import ProfileDifference
from dballoc.profile.symbols import cpp_names


def diff(
    before: Annotated[
        Path, typer.Argument(metavar="BEFORE", help="The profile before (.profile.json.gz).")
    ],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="The profile after.")],
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
    """Show what grew and what shrank between two profiles, by call stack and by function, with
    standard errors if known.
    """
    profiles, measure = profile_files.read_profiles([before, after], value)
    before_profile, after_profile = profiles
    if html:
        # It takes a while to import.
        from dballoc.profile import flamegraph

        page = flamegraph.render_difference_page(
            before_profile,
            after_profile,
            measure.key,
            f"{measure.title[:1].upper()}{measure.title[1:]}: {before.name} → {after.name}",
        )
        profile_files.write_output(html, page.encode("utf-8", "backslashreplace"))
    stacks = profile_tables.rank_growth(before_profile, after_profile, measure.key)
    functions = profile_tables.rank_growth_by_function(before_profile, after_profile, measure.key)
    if as_json:
        print_json(_make_document(profiles, measure, stacks, functions))
        return
    console = Console(highlight=False)
    _print_totals(console, profiles, measure)
    for heading, growths, format_frames in (
        ("by call stack, innermost first", stacks, profile_tables.format_innermost),
        (
            "by function, with what it called",
            functions,
            lambda frames: cpp_names.shorten_name(frames[0]),
        ),
    ):
        both = profile_tables.split_growth(growths, rows)
        for direction, changed in zip(("grew", "shrank"), both, strict=True):
            _print_growth(
                console,
                f"{direction}, {heading}",
                [(format_frames(row.frames), row) for row in changed],
                measure,
            )
    if html:
        console.print(f"Flame graph: {html}", soft_wrap=True, markup=False)


def _print_totals(console: Console, profiles: Sequence[Profile], measure: Value) -> None:
    total_before, total_after = (profile.total(measure.key) for profile in profiles)
    console.print(
        Text(
            f"{measure.title}: {format_amount(total_before, measure.unit)} → "
            f"{format_amount(total_after, measure.unit)} "
            f"({format_signed_amount(total_after - total_before, measure.unit)})",
            style="bold",
        )
    )
    for name, profile in zip(("before", "after"), profiles, strict=True):
        console.print(f"{name}: {profile.title}", markup=False)
    seconds_before, seconds_after = (profile.seconds for profile in profiles)
    if abs(seconds_before - seconds_after) > 0.05 * max(seconds_before, seconds_after):
        times = (
            f"{format_amount(seconds_before, 'seconds')} before and "
            f"{format_amount(seconds_after, 'seconds')} after"
        )
        console.print(
            f"The profiles cover {times}: what grows with time differs for this reason alone."
        )


def _print_growth(
    console: Console, heading: str, rows: Sequence[tuple[str, ProfileDifference]], measure: Value
) -> None:
    if not rows:
        return
    console.print()
    console.print(Text(heading, style="bold"))
    table = start_list(("difference", "± standard error", "before", "after", ""), {""})
    for name, row in rows:
        error = "" if row.error is None else format_amount(row.error, measure.unit)
        table.add_row(
            format_signed_amount(row.grown, measure.unit),
            error,
            format_amount(row.before, measure.unit),
            format_amount(row.after, measure.unit),
            Text(name),
        )
    console.print(table)


def _make_document(
    profiles: Sequence[Profile],
    measure: Value,
    stacks: Sequence[ProfileDifference],
    functions: Sequence[ProfileDifference],
) -> dict[str, Any]:
    sides = {
        name: {
            "title": profile.title,
            "total": profile.total(measure.key),
            "taken": profile.taken_at,
            "seconds": profile.seconds,
        }
        for name, profile in zip(("before", "after"), profiles, strict=True)
    }
    rows = {
        "stacks": [{"stack": list(row.frames)} | _make_growth_fields(row) for row in stacks],
        "functions": [{"function": row.frames[0]} | _make_growth_fields(row) for row in functions],
    }
    return {"value": measure._asdict()} | sides | rows


def _make_growth_fields(row: ProfileDifference) -> dict[str, float | None]:
    return {"grown": row.grown, "before": row.before, "after": row.after, "error": row.error}
