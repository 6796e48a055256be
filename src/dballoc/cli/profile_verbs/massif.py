"""``dballoc profile massif``: heap profiles as massif's ms_print shows them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, get_args

import typer

from dballoc.cli.profile_verbs import profile_files
from dballoc.cli.shared.safe_output import say
from dballoc.ground.errors import UsageError
from dballoc.profile.amounts import format_amount
from dballoc.profile.formats import massif as massif_format
from dballoc.profile.formats import massif_text
from dballoc.profile.formats.massif import MassifOptions, TimeUnit
from dballoc.profile.model import Profile

ThresholdFlag = Annotated[
    float,
    typer.Option(
        metavar="PERCENT",
        help="Of massif's trees: sum up branches below this share of a snapshot.",
        min=0,
        max=100,
    ),
]
DepthFlag = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="Of massif's trees: callers at most.",
        min=1,
        max=massif_format.MOST_DEPTH,
    ),
]
TimeUnitFlag = Annotated[
    TimeUnit,
    typer.Option(help="Of massif's time axis: milliseconds, or bytes allocated and freed."),
]
AllocatorsFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--alloc-fn",
        metavar="PATTERN",
        help="Of massif's trees: count functions of this name as malloc's own, like my_malloc; may "
        "be repeated.",
    ),
]
THRESHOLD = massif_format.THRESHOLD * 100


def massif(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Snapshots of one process (.profile.json.gz)."),
    ],
    value: Annotated[
        str | None, typer.Option(metavar="KEY", help="Which value, like live; default: the first.")
    ] = None,
    threshold: ThresholdFlag = THRESHOLD,
    depth: DepthFlag = massif_format.DEPTH,
    time_unit: TimeUnitFlag = "ms",
    allocators: AllocatorsFlag = None,
) -> None:
    """Print heap profiles as ms_print does: memory over time, the snapshots, who allocated; and
    what changed from the first snapshot to the last.

    valgrind is not needed. Two files are compared with each other.
    """
    profiles, measure = profile_files.read_profiles(files, value)
    options = make_options(threshold, depth, time_unit, allocators)
    print_massif(profiles, measure.key, options)


def make_options(
    threshold: float, depth: int, time_unit: TimeUnit, allocators: Sequence[str] | None
) -> MassifOptions:
    """Return the options of these flags; ``threshold`` in percent."""
    return MassifOptions(
        threshold=threshold / 100,
        depth=depth,
        time_unit=time_unit,
        allocators=tuple(allocators or ()),
    )


def print_massif(profiles: Sequence[Profile], value: str, options: MassifOptions) -> None:
    """Print profiles of one process as ms_print does, and what changed from the first to the last.
    Raises UsageError if the value is not in bytes, or there is no such time.
    """
    try:
        run = massif_format.build_massif_run(profiles, value, options)
    except ValueError as error:
        units = " or ".join(get_args(TimeUnit))
        raise UsageError(
            f"massif's form cannot show these profiles: {error}; it shows values in bytes, against "
            f"a time in {units} (--value, --time-unit)"
        ) from None
    ordered = sorted(profiles, key=lambda profile: profile.taken_at)
    say(massif_text.render_massif(run))
    if len(ordered) > 1:
        say(f"From snapshot 0 to snapshot {len(ordered) - 1}:")
        say("\n".join(massif_text.render_change(ordered[0], ordered[-1], value, options)) + "\n")
    for note in list_limits(ordered, options.time_unit):
        say(f"· {note}")


def list_limits(ordered: Sequence[Profile], time_unit: TimeUnit) -> list[str]:
    """Return notes on what these snapshots lack, against massif's own. Pure."""
    notes = [
        f"{ordered[-1].title}; sampled: {ordered[-1].facts.get('sampled', 'it is not known how')}",
        "bytes are estimates from samples, of usable sizes: what malloc adds (extra-heap) and "
        "stacks are not in them, and addresses are shown only of functions without a name",
    ]
    if len(ordered) == 1:
        notes.append(
            "one snapshot has no course over time; dballoc profile heap --period 10s takes several"
        )
    elif time_unit == "ms":
        seconds = (ordered[-1].taken_at - ordered[0].taken_at) / (len(ordered) - 1)
        notes.append(
            f"a snapshot every {format_amount(seconds, 'seconds')}, not at each allocation: a peak "
            "between two is seen only with --at-peak; the time is the clock's, instructions are "
            "not counted"
        )
    return notes
