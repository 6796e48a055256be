"""Implement ``dballoc trace verify``: whether a trace is whole."""

from pathlib import Path
from typing import Annotated

import typer

from dballoc.cli.shared.safe_output import say
from dballoc.errors import Failure
from dballoc.trace.trace_file.verify_trace import verify_trace


def verify(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A trace (.trace), or a raw recording.")
    ],
) -> None:
    """Check that a trace or a raw recording is whole, and say how far it is if it is not."""
    condition = verify_trace(file)
    if condition.complaint:
        raise Failure(
            f"{file}: {condition.complaint}; whole are its first {condition.blocks:,} blocks, "
            f"{condition.bytes:,} bytes, with {condition.events:,} of {condition.declared:,} events"
        )
    say(
        f"{file}: whole: {condition.events:,} events in {condition.blocks:,} blocks, "
        f"{condition.bytes:,} bytes; every checksum is right, and no block is freed twice or too "
        "early"
    )
