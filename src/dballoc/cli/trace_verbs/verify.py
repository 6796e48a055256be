"""Implement ``dballoc trace verify``: whether a trace is whole."""

from pathlib import Path
from typing import Annotated

import typer

from dballoc.cli.shared.safe_output import say
from dballoc.errors import Failure
from dballoc.trace.recording.read_recording import is_recording, verify_recording
from dballoc.trace.trace_file.read_trace import verify_trace


def verify(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A trace (.trace), or a raw recording.")
    ],
) -> None:
    """Check that a trace or a raw recording is whole, and say how far it is if it is not."""
    if is_recording(file):
        _verify_recording(file)
        return
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


def _verify_recording(file: Path) -> None:
    condition = verify_recording(file)
    extent = (
        f"{condition.events:,} events in {condition.chunks:,} chunks, {condition.bytes:,} bytes"
    )
    if condition.complaint:
        raise Failure(
            f"{file}: {condition.complaint}; whole are its first {condition.chunks:,} chunks: "
            f"{extent}; dballoc trace compile uses them"
        )
    end = (
        "the program was killed, or still runs"
        if condition.ended_by == "unknown"
        else f"ended by: {condition.ended_by}"
    )
    say(f"{file}: a raw recording, whole: {extent}; {condition.dropped:,} events dropped; {end}")
