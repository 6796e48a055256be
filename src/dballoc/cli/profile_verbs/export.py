"""``dballoc profile export``: a profile for other programs."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from dballoc.cli.profile_verbs import profile_files
from dballoc.ground.errors import UsageError

# The formats of profile/formats/export.py, which is slow to import; a test compares the two.
Format = Literal["collapsed", "pprof", "speedscope", "massif", "html"]


def export(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="A profile (.profile.json.gz); several for massif and html: snapshots, variants.",
        ),
    ],
    format_name: Annotated[Format, typer.Option("--format", help="For which program.")],
    value: Annotated[
        str | None, typer.Option(metavar="KEY", help="Which value, like live; default: the first.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Output file; - is standard output; default: FILE with another suffix.",
        ),
    ] = None,
) -> None:
    """Write profiles as collapsed stacks, for pprof, speedscope or ms_print, or as an HTML page
    with a flame graph.
    """
    from dballoc.profile.formats import export as formats

    if len(files) > 1 and not formats.takes_many(format_name):
        many = " and ".join(name for name in formats.FORMATS if formats.takes_many(name))
        raise UsageError(
            f"--format {format_name}: a file holds one profile, but {len(files)} are given; only "
            f"{many} take several"
        )
    profiles, measure = profile_files.read_profiles(files, value)
    try:
        content = formats.export_profiles(profiles, measure.key, format_name)
    except ValueError as error:
        raise UsageError(
            f"--format {format_name}: {error}, and {measure.key} is in {measure.unit}; choose "
            "another --value"
        ) from None
    if output == Path("-"):
        sys.stdout.buffer.write(content)
        return
    path = output or files[-1].with_name(
        _strip_suffixes(files[-1].name) + formats.get_suffix(format_name)
    )
    profile_files.write_output(path, content)
    print(path)


def _strip_suffixes(name: str) -> str:
    return name.removesuffix(".gz").removesuffix(".json").removesuffix(".profile")
