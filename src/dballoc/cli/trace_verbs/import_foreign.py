"""``dballoc trace import``: traces of other tools."""

from pathlib import Path
from typing import Annotated

import typer

from dballoc.cli.trace_verbs.written_trace import OutFlag, write_and_tell
from dballoc.trace.importers.import_trace import ImportFormat, import_trace


def import_foreign(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of another tool.")],
    out: OutFlag,
    form: Annotated[
        ImportFormat,
        typer.Option(
            "--format",
            help="glibc: the text of mtrace(), or the file of its malloc tracing (trace_run); "
            "android: the text of record_allocs (memory_replay).",
        ),
    ],
) -> None:
    """Make a trace of another tool's file; packed by gzip if its name ends in .gz (text only)."""
    write_and_tell(import_trace(file, form), out)
