"""``dballoc trace compile``: from a recording to a trace."""

from pathlib import Path
from typing import Annotated

import typer

from dballoc.cli.trace_verbs.written_trace import OutFlag, write_and_tell
from dballoc.trace.compilation.compile_recording import RESOLUTION, compile_recording
from dballoc.trace.recording.read_recording import read_recording


def compile_(
    recording: Annotated[
        Path, typer.Argument(metavar="RECORDING", help="A raw recording (.recording).")
    ],
    out: OutFlag,
    resolution: Annotated[
        int,
        typer.Option(
            metavar="NS",
            help="Round times down to multiples of so many nanoseconds; 1 keeps them exact and "
            "makes the file a quarter larger, 100 a quarter smaller.",
            min=1,
            max=1_000_000,
        ),
    ] = RESOLUTION,
    seed: Annotated[
        int,
        typer.Option(help="Of the draw of which pages large blocks touch.", min=0, max=2**32),
    ] = 0,
) -> None:
    """Compile a raw recording to a trace: addresses become numbers, and the file shrinks to a
    quarter.
    """
    source = read_recording(recording)
    write_and_tell(compile_recording(source, resolution, seed), out)
