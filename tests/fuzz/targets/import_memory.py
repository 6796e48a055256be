"""Readings of a server's memory for ``dballoc import``: Get-Process, Get-Counter, counter logs."""

from example_imports import LAYOUTS

from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.intake import attach_memory, foreign_kinds

OF = (
    "dballoc.intake.attach_memory",
    "dballoc.intake.foreign_kinds",
    "dballoc.intake.delimited_text",
)
PRIVILEGED = False


def seeds() -> list[bytes]:
    return [
        *(text.encode() for text in LAYOUTS.values()),
        LAYOUTS["Get-Counter"].replace("\n", "\r\n").encode("utf-16"),
    ]


def fuzz(data: bytes) -> None:
    try:
        text = foreign_kinds.decode_text(data)
    except readers.Unfit as error:
        assert "\n" not in str(error), error
        return
    for process in (None, "mariadbd"):
        try:
            series = attach_memory.parse_memory(text, "f", process)
        except UsageError as error:
            assert "\n" not in str(error), error
            continue
        assert series.rss or series.private
        assert all(0 <= size <= 2**53 for size in (*series.rss, *series.private))
