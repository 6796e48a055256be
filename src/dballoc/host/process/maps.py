"""A process's mappings, as /proc/PID/maps lists them (proc_pid_maps(5)).

The kernel escapes the newline in a file's name and nothing else: other characters that end a line
for Python may be in it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dballoc.ground import readers
from dballoc.host.process.handle import Process

_LINE = re.compile(
    r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) (\S{4}) ([0-9a-f]{1,16}) (\S+) ([0-9]{1,20}) *([^\n]*)"
)
ANONYMOUS = "00:00"  # the device of memory without a file
# The kernel allows 65,530 mappings by default, and a process chooses the names of the files in
# them.
_MOST_BYTES = 64 * readers.MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class MapsLine:
    """A mapping's addresses, ``permissions``, and what backs it: ``offset`` in bytes, ``device`` as
    ``MAJOR:MINOR`` in hexadecimal; for anonymous memory 0, ``00:00`` and an empty ``path``.
    """

    start: int
    end: int
    permissions: str
    offset: int
    inode: int
    path: str
    device: str = ANONYMOUS

    @property
    def size(self) -> int:
        """Bytes of address space."""
        return self.end - self.start


def read_maps(process: Process) -> list[MapsLine]:
    """Read a process's mappings by address. Raises OSError if it is gone or not ours."""
    return parse_maps(read_maps_text(process))


def read_maps_text(process: Process, errors: str = "replace") -> str:
    """Read the text of /proc/PID/maps. ``errors``: what becomes of names that are not UTF-8, as
    bytes.decode has it. Raises OSError if the process is gone or not ours.
    """
    return process.read("maps", _MOST_BYTES).decode(errors=errors)


def list_mapped_files(process: Process) -> set[str]:
    """Return the paths of the files that a process has mapped. Raises OSError if it cannot be
    read.
    """
    # Most lines of a process with very many are anonymous memory.
    lines = (text for text in read_maps_text(process).split("\n") if "/" in text)
    return {line.path for line in map(parse_line, lines) if line and line.path.startswith("/")}


def list_file_paths(lines: Iterable[MapsLine]) -> set[str]:
    """List the paths of the files among the mappings."""
    return {line.path for line in lines if line.path.startswith("/")}


def parse_maps(text: str) -> list[MapsLine]:
    """Parse the text of /proc/PID/maps; what is no line of it is left out."""
    return [line for line in map(parse_line, text.split("\n")) if line]


def parse_line(text: str) -> MapsLine | None:
    """Parse one line; None if it is not a line of /proc/PID/maps, or its end is below its start."""
    fields = _LINE.match(text)
    if fields is None or int(fields[1], 16) >= int(fields[2], 16):
        return None
    return MapsLine(
        start=int(fields[1], 16),
        end=int(fields[2], 16),
        permissions=fields[3],
        offset=int(fields[4], 16),
        inode=int(fields[6]),
        path=fields[7],
        device=fields[5],
    )
