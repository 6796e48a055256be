"""Attach readings of a server's memory to the figures that were measured meanwhile."""

import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.intake import delimited_text, foreign_kinds
from dballoc.intake.csv_figures import SIZES
from dballoc.intake.delimited_text import Delimited
from dballoc.intake.imported_figure import ImportedFigure, choose_machine
from dballoc.intake.output_mapping import MemoryFile

_LARGEST_SIZE = 2**53
_MOST_READINGS = 5_000_000

RSS, _PRIVATE = "rss", "private"

# The properties of Get-Process, best first: those of 32 bits overflow at 2 GiB.
_PROPERTIES = {
    RSS: ("workingset64", "ws", "workingset"),
    _PRIVATE: (
        "privatememorysize64",
        "pagedmemorysize64",
        "pm",
        "privatememorysize",
        "pagedmemorysize",
    ),
}
_NAMES, _NUMBERS = ("processname", "name"), ("id",)
_COUNTERS = {"working set": RSS, "private bytes": _PRIVATE}
_COUNTER = re.compile(
    r"(?:\\\\[^\\]+)?\\process(?: v2)?\(([^()]{1,260})\)\\([^\\]{1,200})", re.IGNORECASE
)
_PRINTED_COUNTER = re.compile(
    r"(?:^|\s)(\\\\[^\\\s]+\\process[^\\]*\\[^\\]+?)\s*:\s*", re.IGNORECASE
)
_PRINTED_HEADING = re.compile(r"(?:^|[ \t])WS\((K|M)\)(?:$|[ \t])")
_UNITS = {"K": 2**10, "M": 2**20}
_WHOLE = re.compile(r"\d{1,20}", re.ASCII)
# As PowerShell 7 prints it: thousands, and two decimals.
_PRINTED = re.compile(r"\d{1,3}(?:[.,'’\u00a0\u202f]?\d{3}){0,6}[.,]\d{2}", re.ASCII)


@dataclass(frozen=True)
class _MemorySeries:
    """A process's readings in their order, bytes; empty where the file has none."""

    rss: list[int] = field(default_factory=list)
    private: list[int] = field(default_factory=list)


# A process as a file names it; its number is empty where the file does not have it.
_Key = tuple[str, str]
_Readings = dict[_Key, _MemorySeries]


def parse_memory(text: str, origin: str, process: str | None) -> _MemorySeries:
    """Return the readings of a process. UsageError, ``FILE:LINE: …``, if the file has none, or has
    several processes and ``process`` (a name or a number) does not say which.
    """
    readings: _Readings = defaultdict(_MemorySeries)
    if text[:1000].lstrip().startswith(('"(PDH-', "(PDH-")):
        _read_counter_log(text, origin, readings)
    elif any(_PRINTED_COUNTER.search(line) for line in text.split("\n", 50)[:50]):
        _read_printed_counters(text, origin, readings)
    elif any(_PRINTED_HEADING.search(line) for line in text.split("\n", 50)[:50]):
        _read_printed_processes(text, origin, readings)
    else:
        _read_table(delimited_text.parse_delimited(text, origin), origin, readings)
    return _choose_process(readings, process, origin)


def _choose_process(readings: _Readings, process: str | None, origin: str) -> _MemorySeries:
    present = {key: series for key, series in readings.items() if series.rss or series.private}
    if not present:
        raise UsageError(
            f"{origin}:1: no working set of a process in it (its counters and properties must have "
            "their English names)"
        )
    wanted = (process or "").lower().removesuffix(".exe")
    matching = [
        key
        for key in present
        if not wanted or wanted in (key[0].lower().removesuffix(".exe"), key[1])
    ]
    if len(matching) == 1:
        return present[matching[0]]
    names = ", ".join(
        readers.shown(f"{name} ({number})" if number else name)
        for name, number in (matching or list(present))[:5]
    )
    if matching:
        raise UsageError(
            f"{origin}:1: readings of {len(matching)} processes; say which by process in "
            f"[[memory]], its name or number: {names}"
        )
    raise UsageError(f"{origin}:1: process: no {readers.shown(wanted)}; there are {names}")


def _add_reading(series: _MemorySeries, measure: str, size: float | None, place: str) -> None:
    if size is None or not 0 <= size <= _LARGEST_SIZE:
        raise UsageError(f"{place}: a reading that is not a size in bytes")
    values = series.rss if measure == RSS else series.private
    if len(values) >= _MOST_READINGS:
        raise UsageError(f"{place}: more than {_MOST_READINGS:,} readings")
    values.append(round(size))


def _read_table(table: Delimited, origin: str, readings: _Readings) -> None:
    heading = [name.lower() for name in table.heading]
    if "path" in heading and "cookedvalue" in heading:
        _read_counter_samples(table, heading, origin, readings)
        return
    columns = dict(_find_size_columns(heading))
    if RSS not in columns:
        raise UsageError(
            f"{origin}:1: no column WorkingSet64, WS or rss_bytes, nor a counter of a process; the "
            f"first columns are {readers.shown(', '.join(table.heading[:5]))}"
        )
    name, number = (
        next((heading.index(n) for n in names if n in heading), None)
        for names in (_NAMES, _NUMBERS)
    )
    cells = table.list_cells((column for column, _ in columns.values()), origin)
    mark = delimited_text.find_decimal_mark(table.delimiter, cells)
    for row in table.rows:
        key = ("" if name is None else row.cells[name], "" if number is None else row.cells[number])
        for measure, (column, unit) in columns.items():
            if not row.cells[column]:
                continue
            value = delimited_text.parse_decimal(row.cells[column], mark)
            size = None if value is None else value * unit
            place = f"{origin}:{row.line}: {table.heading[column]}"
            _add_reading(readings[key], measure, size, place)


def _find_size_columns(heading: list[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield each measure that the table has, with its column and the unit of its numbers."""
    for measure, properties in _PROPERTIES.items():
        for name in properties:
            if name in heading:
                yield measure, (heading.index(name), 1)
                break
        else:
            for name, (of, unit) in SIZES.items():
                if of == measure and name in heading:
                    yield measure, (heading.index(name), unit)
                    break


def _read_counter_samples(
    table: Delimited, heading: list[str], origin: str, readings: _Readings
) -> None:
    path, cooked = heading.index("path"), heading.index("cookedvalue")
    rows = [(row, match) for row in table.rows if (match := _COUNTER.fullmatch(row.cells[path]))]
    cells = ((f"{origin}:{row.line}", row.cells[cooked]) for row, _ in rows)
    mark = delimited_text.find_decimal_mark(table.delimiter, cells)
    for row, match in rows:
        if measure := _COUNTERS.get(match[2].lower()):
            value = delimited_text.parse_decimal(row.cells[cooked], mark)
            _add_reading(
                readings[_name_instance(match[1])],
                measure,
                value,
                f"{origin}:{row.line}: CookedValue",
            )


def _name_instance(instance: str) -> _Key:
    """Return the process of a counter's instance: ``name``, ``name#1``, or ``name:PID`` of
    Process V2.
    """
    name, colon, number = instance.rpartition(":")
    return (name, number) if colon and number.isdigit() else (instance, "")


def _read_counter_log(text: str, origin: str, readings: _Readings) -> None:
    """Read the log of performance counters, without typeperf's last words."""
    lines = text.split("\n")
    while lines and not lines[-1].lstrip().startswith(('"', "(")):
        lines.pop()
    # What is left out in the middle stays an empty line, so that numbers of lines are right.
    kept = [line if line.lstrip().startswith(('"', "(")) else "" for line in lines]
    table = delimited_text.parse_delimited("\n".join(kept), origin)
    columns = {
        i: (_name_instance(match[1]), _COUNTERS[match[2].lower()])
        for i, name in enumerate(table.heading)
        if (match := _COUNTER.fullmatch(name)) and match[2].lower() in _COUNTERS
    }
    mark = delimited_text.find_decimal_mark(table.delimiter, table.list_cells(columns, origin))
    for row in table.rows:
        for i, (key, measure) in columns.items():
            if row.cells[i]:
                value = delimited_text.parse_decimal(row.cells[i], mark)
                _add_reading(readings[key], measure, value, f"{origin}:{row.line}")


def _read_printed_counters(text: str, origin: str, readings: _Readings) -> None:
    """Read what Get-Counter prints: each counter's path and a colon, its value on the next line."""
    pending: re.Match[str] | None = None
    for number, line in enumerate(text.split("\n"), 1):
        printed = _PRINTED_COUNTER.search(line)
        rest = line[printed.end() :].strip() if printed else line.strip()
        if printed:
            pending = _COUNTER.fullmatch(printed[1])
        if not rest or pending is None:
            continue
        if measure := _COUNTERS.get(pending[2].lower()):
            value = delimited_text.parse_decimal(rest, "," if "," in rest else ".")
            _add_reading(readings[_name_instance(pending[1])], measure, value, f"{origin}:{number}")
        pending = None


def _read_printed_processes(text: str, origin: str, readings: _Readings) -> None:
    """Read the tables that Get-Process prints, each below its heading; the name comes last."""
    columns: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if _PRINTED_HEADING.search(line):
            columns = line.split()
            continue
        cells = re.split(r"[ \t]+", line.strip(" \t"), maxsplit=max(0, len(columns) - 1))
        if not columns or not line.strip() or set(line) <= set("- \t"):
            continue
        if len(cells) == len(columns) - 1 and "CPU(s)" in columns:
            cells.insert(columns.index("CPU(s)"), "")  # of a process that has used none
        if len(cells) != len(columns):
            raise UsageError(
                f"{origin}:{number}: {len(cells)} columns, but Get-Process's heading has "
                f"{len(columns)}"
            )
        _add_printed_row(dict(zip(columns, cells, strict=True)), f"{origin}:{number}", readings)


def _add_printed_row(row: Mapping[str, str], place: str, readings: _Readings) -> None:
    key = (row.get("ProcessName", ""), row.get("Id", ""))
    for measure, name in ((RSS, "WS"), (_PRIVATE, "PM")):
        for letter, unit in _UNITS.items():
            if (cell := row.get(f"{name}({letter})")) is not None:
                value = _parse_printed(cell)
                size = None if value is None else value * unit
                _add_reading(readings[key], measure, size, f"{place}: {name}({letter})")


def _parse_printed(text: str) -> float | None:
    if _WHOLE.fullmatch(text):
        return float(text)
    if not _PRINTED.fullmatch(text):
        return None
    return int(re.sub(r"[^0-9]", "", text)) / 100


_LARGEST_FILE = 64 * readers.MIB


def attach_memory(
    figures: Sequence[ImportedFigure], files: Sequence[MemoryFile]
) -> list[ImportedFigure]:
    """Return the figures, with the memory that the files hold. UsageError in one line for a file
    that cannot be read, that no figure belongs to, or whose figure has its memory already.
    """
    places = {figure.identity: i for i, figure in enumerate(figures)}
    attached = list(figures)
    for file in files:
        machine = choose_machine(figures, file.variant, file.workload, file.machine, str(file.path))
        place = places.get((machine, file.workload, file.threads, file.variant, file.block))
        if place is None:
            raise UsageError(
                f"{file.path}: no transactions per second of {file.variant}, {file.workload} at "
                f"level {file.threads}, block {file.block}"
            )
        attached[place] = _add_series(attached[place], _read_series(file), file)
    return attached


def _read_series(file: MemoryFile) -> _MemorySeries:
    with readers.naming(file.path):
        text = foreign_kinds.read_text(file.path, _LARGEST_FILE)
    return parse_memory(text, str(file.path), file.process)


def _add_series(figure: ImportedFigure, series: _MemorySeries, file: MemoryFile) -> ImportedFigure:
    for has, values, title in (
        (figure.rss, series.rss, "RSS"),
        (figure.private, series.private, "private bytes"),
    ):
        if has is not None and values:
            raise UsageError(
                f"{file.path}: the {title} of {figure.variant}, {figure.workload} at level "
                f"{figure.threads} is already given, in {figure.place} or by another file"
            )
    rss, private = series.rss, series.private
    changed = replace(figure, private=max(private)) if private else figure
    if not rss:
        return changed
    return replace(
        changed,
        rss=max(rss),
        rss_start=rss[0],
        rss_mean=statistics.fmean(rss),
        rss_end=rss[-1],
    )
