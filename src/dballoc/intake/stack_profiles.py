"""Make profiles of files of call stacks that other programs counted."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from dballoc import catalogue
from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.ground.numbers import count
from dballoc.intake import delimited_text, foreign_kinds
from dballoc.intake.delimited_text import Delimited, Row
from dballoc.intake.mapping_file import Counts
from dballoc.intake.output_mapping import StackFile
from dballoc.profile.call_tree import TRUNCATED
from dballoc.profile.contention.wait_rules import KERNEL, Rules
from dballoc.profile.contention.waits import WAITED, WAITS, WAKEUPS
from dballoc.profile.formats import collapsed
from dballoc.profile.formats.collapsed import Functions, StackSums, iterate_lines
from dballoc.profile.model import Frame, Profile, Sample, Value

# Of Windows' tools: the file, then the function. A C++ operator has an exclamation mark as well.
_MODULE = re.compile(r"(?!operator!)([^!`\s:;<>(]{1,255})!(.+)", re.DOTALL)
_OFFSET = re.compile(r" ?\+ ?0x[0-9a-fA-F]{1,16}$")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{1,16}")
_OWN_ADDRESS = re.compile(r"([^!`\s:;<>(+]{1,255})\+0x[0-9a-fA-F]{1,16}")
# stackcollapse-perf.pl --all: kernel, inlined, compiled at run time.
_MARK = re.compile(r"_\[([kijw])\]$")
_NAMELESS = frozenset(
    ("", "?", "unknown", "[unknown]", "[unnamed]", "<pdb not found>", "<pdb_not_found>", "n/a")
)


def parse_frame(text: str) -> Frame:
    """Return the frame. One without a function's name keeps its text and is not ``named``."""
    text = text.strip()
    if match := _MARK.search(text):
        module = KERNEL if match[1] == "k" else ""
        return Frame(text[: match.start()] or "[unnamed]", module, match.start() > 0)
    if match := _MODULE.fullmatch(text):
        return _parse_function(match[2].strip(), match[1], text)
    if match := _OWN_ADDRESS.fullmatch(text):
        return Frame(text, match[1], named=False)
    return _parse_function(text, "", text)


def _parse_function(function: str, module: str, text: str) -> Frame:
    """Return the frame of a function of a module; ``text``: all that the file has of it."""
    name = _OFFSET.sub("", function).strip()
    if name.lower() in _NAMELESS or _ADDRESS.fullmatch(name):
        return Frame(text or "[unnamed]", module, named=False)
    return Frame(name, module)


def _is_truncation(frame: Frame) -> bool:
    """Whether a stack's first frame only says that outer ones are missing, as in our exports."""
    return frame.function == TRUNCATED.function


# By what is counted: the event, and in tables the columns of its stack and of its process, the
# first that there is.
_EVENTS = {"waits": "CSwitch", "wakeups": "ReadyThread", "cpu": "SampledProfile"}
_SWITCHED = ("new process", "new process name", "process", "process name")
_COLUMNS = {
    "waits": (("new thread stack", "stack"), _SWITCHED),
    "waited": (("new thread stack", "stack"), _SWITCHED),
    "wakeups": (
        ("ready thread stack", "readying thread stack"),
        ("readying process", "ready process", "readying process name"),
    ),
    "cpu": (("stack",), ("process", "process name")),
}
_STACKS = frozenset(name for stacks, _ in _COLUMNS.values() for name in stacks)
_WAITS = re.compile(r"waits \((s|ms|us|\u00b5s|\u03bcs|ns)\)")
# Microseconds ÷ a number in a column of this name.
_MICROSECONDS = {"s": 1e6, "ms": 1e3, "us": 1.0, "\u00b5s": 1.0, "\u03bcs": 1.0, "ns": 1e-3}

_DUMP = re.compile(
    r"^[ \t]*(?:BeginHeader$"
    r"|(?:CSwitch|ReadyThread|SampledProfile|Stack)[ \t]*,[ \t]*(?:TimeStamp|\d+)[ \t]*,)",
    re.MULTILINE,
)
_BEGINNING = 65_536
# The end of a process's name, which may have brackets and blanks in it.
_PROCESS_NUMBER = re.compile(r"\(\s*+(\d{1,10})\s*+\)")
# Functions may have a slash in their names; a new frame begins with its file and a mark.
_SEPARATOR = re.compile(r"/(?=[^/!]*!)")
_ROOT = "[Root]"


def is_dump(text: str) -> bool:
    """Whether a text looks like what ``xperf -a dumper`` prints."""
    return bool(_DUMP.search(text, 0, _BEGINNING))


def is_table(text: str) -> bool:
    """Whether a text looks like a table with a column of call stacks."""
    heading = text.partition("\n")[0].strip()
    cells = [cell.strip(' "').lower() for cell in re.split("[,;\t]", heading)]
    # A collapsed stack may have a function of that name, and ends in a number.
    is_stack = cells[-1].rpartition(" ")[2][:1].isdigit()
    return not is_stack and any(cell in _STACKS for cell in cells)


@dataclass(frozen=True)
class _TracedProcess:
    """A process of the trace, as an event names it."""

    name: str
    number: str

    def matches(self, wanted: str) -> bool:
        """Whether it is the process that the user named, by its number or by its name with or
        without ``.exe``.
        """
        name = self.name.lower()
        return wanted.lower() in (name, name.removesuffix(".exe"), self.number)

    def __str__(self) -> str:
        return f"{self.name} ({self.number})"


def parse_dump(text: str, origin: str, counts: Counts, process: str | None) -> dict[Functions, int]:
    """Return how many events each stack of a process has. UsageError, ``FILE:LINE: …``, if there
    are none, if they have no stacks, or if it is not clear which process is meant.
    """
    if counts == "waited":
        raise UsageError(
            f"{origin}:1: events have no times waited; export CPU Usage (Precise) by wpaexporter, "
            'or let counts be "waits"'
        )
    wanted = _EVENTS[counts]
    events: dict[tuple[str, str], _TracedProcess] = {}
    sums: dict[_TracedProcess, StackSums] = {}
    stack: list[str] = []
    place: tuple[str, str] = ("", "")
    number, began = 1, 1

    def finish_stack() -> None:
        of_process = events.pop(place, None)
        if of_process is not None and stack:
            of = sums.setdefault(of_process, StackSums(origin))
            of.add(tuple(reversed(stack)), 1, began)
        stack.clear()

    for number, line in iterate_lines(text):
        kind, _, rest = line.partition(",")
        kind = kind.strip()
        if kind == wanted:
            fields = rest.split(",", 3)
            if len(fields) == 4 and (switched := _parse_process(fields[1])):
                events[fields[0].strip(), fields[2].strip()] = switched
        elif kind == "Stack":
            fields = rest.split(",", 4)
            if len(fields) < 5 or not fields[0].strip().isdigit():
                continue
            if (event := (fields[0].strip(), fields[1].strip())) != place:
                finish_stack()
                place, began = event, number
            if place in events:
                stack.append(fields[4].strip())
    finish_stack()
    if not sums:
        raise UsageError(
            f"{origin}:{number}: no {wanted} event with a call stack; record them with "
            f"xperf -on PROC_THREAD+LOADER+CSWITCH+DISPATCHER -stackwalk {wanted}"
        )
    return _choose_stacks(sums, process, origin)


def _choose_stacks(
    sums: dict[_TracedProcess, StackSums], process: str | None, origin: str
) -> dict[Functions, int]:
    chosen = _choose_process(sums, process, origin)
    return {stack: round(number) for stack, number in sums[chosen].finish().items()}


def _choose_process(
    processes: Iterable[_TracedProcess], wanted: str | None, origin: str
) -> _TracedProcess:
    """Return the process that is meant. Raises UsageError if none or several match."""
    present = list(processes)
    matching = [p for p in present if wanted is None or p.matches(wanted)]
    if len(matching) == 1:
        return matching[0]
    shown = ", ".join(readers.shown(str(p)) for p in (matching or present)[:5])
    if wanted is None:
        raise UsageError(
            f"{origin}:1: stacks of {len(present)} processes; say which by process in [[stacks]]: "
            f"{shown}"
        )
    if matching:
        raise UsageError(
            f"{origin}:1: process: {len(matching)} are called {readers.shown(wanted)}; give its "
            f"number instead: {shown}"
        )
    raise UsageError(f"{origin}:1: process: no {readers.shown(wanted)}; there are {shown}")


def parse_table(
    text: str, origin: str, counts: Counts, process: str | None
) -> dict[Functions, float]:
    """Return what each stack of a process has: the sum of the column Count, or the lines where
    there is none; microseconds of Waits for ``counts`` "waited". UsageError, ``FILE:LINE: …``, as
    for :func:`parse_dump`.
    """
    table = delimited_text.parse_delimited(text, origin)
    heading = [name.lower() for name in table.heading]
    stack_names, process_names = _COLUMNS[counts]
    stack = _find_column(heading, stack_names)
    if stack is None:
        raise UsageError(
            f"{origin}:1: column {' or '.join(map(repr, stack_names))} is missing, which has the "
            f'stacks of counts = "{counts}"'
        )
    number, factor = _find_number(heading, counts, origin)
    of_process = _find_column(heading, process_names)
    rows = [row for row in table.rows if row.cells[stack].lower() not in ("", "n/a")]
    rows = _choose_rows(rows, of_process, process, origin)
    sums = StackSums(origin)
    for row in rows:
        value = 1.0 if number is None else _parse_number(row, number, table, origin)
        sums.add(_split_stack(row.cells[stack]), value * factor, row.line)
    return dict(sums.finish())


def _find_column(heading: list[str], names: Iterable[str]) -> int | None:
    return next((heading.index(name) for name in names if name in heading), None)


def _find_number(heading: list[str], counts: Counts, origin: str) -> tuple[int | None, float]:
    """Return the column of numbers (None: a line counts once), and the factor to our unit."""
    if counts != "waited":
        return _find_column(heading, ("count",)), 1.0
    for i, name in enumerate(heading):
        if match := _WAITS.fullmatch(name):
            return i, _MICROSECONDS[match[1]]
    raise UsageError(
        f"{origin}:1: column 'Waits (us)' is missing, which has the times of counts = \"waited\""
    )


def _parse_process(cell: str) -> _TracedProcess | None:
    """Parse ``NAME (NUMBER)``; None for anything else. The time is linear in the length."""
    name, bracket, number = cell.strip().rpartition("(")
    match = _PROCESS_NUMBER.fullmatch(bracket + number)
    return _TracedProcess(name.strip(), match[1]) if match else None


def _choose_rows(
    rows: list[Row], column: int | None, process: str | None, origin: str
) -> list[Row]:
    if column is None:
        if process is not None:
            raise UsageError(f"{origin}:1: process: the table has no column of processes")
        return rows
    processes: dict[str, _TracedProcess] = {}
    for row in rows:
        cell = row.cells[column]
        if cell not in processes:
            processes[cell] = _parse_process(cell) or _TracedProcess(cell, "")
    if not processes:
        return []
    chosen = _choose_process(dict.fromkeys(processes.values()), process, origin)
    return [row for row in rows if processes[row.cells[column]] == chosen]


def _parse_number(row: Row, column: int, table: Delimited, origin: str) -> float:
    """Return a number with marks for thousands: 20,726,984.94 where commas separate the columns,
    20.726.984,94 where others do.
    """
    text = row.cells[column]
    thousands, mark = (",", ".") if table.delimiter == "," else (".", ",")
    plain = re.sub(rf"(?<=\d)(?:{re.escape(thousands)}|[ \u00a0\u202f’'])(?=\d{{3}})", "", text)
    value = delimited_text.parse_decimal(plain, mark)
    if value is None or value < 0:
        raise UsageError(
            f"{origin}:{row.line}: {table.heading[column]}: {readers.shown(text)} is not a number"
        )
    return value


def _split_stack(cell: str) -> Functions:
    frames = [frame.strip() for frame in _SEPARATOR.split(cell)]
    return tuple(frames[1:] if frames[0] == _ROOT and len(frames) > 1 else frames)


_LARGEST_FILE = 256 * readers.MIB

# By what a file counts: the profile's value, and what a number is multiplied with to give its unit.
VALUES: Mapping[Counts, tuple[Value, float]] = {
    "waits": (WAITS, 1.0),
    "waited": (WAITED, 1e-6),
    "wakeups": (WAKEUPS, 1.0),
    "cpu": (Value("cpu", "count", "Samples of the CPU"), 1.0),
}


def read_profile(file: StackFile) -> Profile:
    """Read a file of collapsed stacks, or one of the layouts of
    :mod:`dballoc.intake.stack_profiles`. Raises UsageError if it is none of them.
    """
    with readers.naming(file.path):
        text = foreign_kinds.read_text(file.path, _LARGEST_FILE, errors="replace")
    return parse_profile(text, file, Rules(catalogue.waits()))


def parse_profile(text: str, file: StackFile, rules: Rules) -> Profile:
    """Return the profile in a file's text. Each sample has the labels that ours have: what the
    thread waited for, and where malloc was entered. UsageError as for :func:`read_profile`.
    """
    sums, layout = _parse_stacks(text, file)
    value, factor = VALUES[file.counts]
    waits = file.counts in ("waits", "waited")
    parse = cache(parse_frame)
    samples = []
    for functions, number in sums.items():
        frames = [parse(name) for name in functions]
        truncated = _is_truncation(frames[0])
        stack = rules.mark_kernel(frames[1:] if truncated else frames)
        if not stack:
            continue
        kind = rules.classify(stack)
        labels = {"wait": kind.group, "call": kind.call} if waits else {}
        if kind.entry:
            labels["malloc"] = kind.entry
        samples.append(Sample(stack, (number * factor,), truncated, labels))
    if not samples:
        raise UsageError(f"{file.path}: no stacks in it")
    method = f"imported from {file.path.name}: {layout}, {count(len(samples), 'different stack')}"
    return Profile(
        title=f"{file.variant}, {file.workload} at {file.threads}: {value.title.lower()}",
        values=(value,),
        samples=samples,
        facts={
            "method": method,
            "workload": file.workload,
            "clients": str(file.threads),
            "imported": file.path.name,
        },
    )


def _parse_stacks(text: str, file: StackFile) -> tuple[Mapping[Functions, float], str]:
    """Return the sum of each stack, and the name of the file's layout."""
    origin = str(file.path)
    if is_dump(text):
        return (
            parse_dump(text, origin, file.counts, file.process),
            "events of xperf's dumper",
        )
    if is_table(text):
        return (
            parse_table(text, origin, file.counts, file.process),
            "a table of Windows Performance Analyzer",
        )
    if file.process is not None:
        raise UsageError(f"{origin}: process: collapsed stacks do not name their process")
    return collapsed.parse_collapsed(text, origin), "collapsed stacks"
