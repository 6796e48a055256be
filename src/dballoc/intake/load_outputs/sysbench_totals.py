"""Parse the totals that sysbench prints, 0.4 to 1.1. Pure.

A text may hold several runs, as a loop leaves that appends to one file, and what ``prepare`` and
``cleanup`` print between them. Whatever stands among the totals and is not understood, or has no
place in the results, is named with its line.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.intake.load_outputs.totals import Numbered, Totals, parse_number

# PowerShell puts the program's name before what it writes to standard error.
_FATAL = re.compile(r"^(?:\S{1,200} : )?((?:FATAL|ALERT|PANIC)\b.*)")
_BANNER = re.compile(r"^sysbench \d")
_OPTIONS = re.compile(r"^Running the test with following options")
_THREADS = re.compile(r"^Number of threads:\s*(\S{1,40})")
# The heading of the totals of a database workload: 1.0 on, and before.
_TOTALS = re.compile(r"^(?:SQL statistics|OLTP test statistics):")
# A line of the totals, or of the histogram and the intervals between them.
_NAMED = re.compile(r"^\s*(\S[^:]{0,60}):\s*(.*?)\s*$")
_COUNTED = re.compile(r"(\S{1,40})\s*\(\s*(\S{1,40}) per sec\.?\)")
_PERCENTILE = re.compile(r"(?:approx\.\s*)?(\d{1,2}(?:\.\d{1,4})?)(?:th|st|nd|rd)? percentile")
_QUANTITY = re.compile(r"(\S{1,40}?)(ms|s)?")
# The last line in every version's output.
_END = "execution time (avg/stddev)"
# What there is besides, for which the results have no place.
_UNUSED = frozenset(
    (
        "queries performed", "other", "total", "deadlocks", "ignored errors", "reconnects",
        "general statistics", "test execution summary", "throughput", "events/s (eps)",
        "total number of events", "total time taken by event execution", "latency (ms)",
        "per-request statistics", "response time", "min", "avg", "max", "sum", "threads fairness",
        "events (avg/stddev)", "percentile stats", "latency histogram (values are in milliseconds)",
        "sql statistics", "oltp test statistics", "operations", "initializing worker threads",
        _END,
    )
)  # fmt: skip
# 1.0 counts every query; older versions count requests and, apart, BEGIN and COMMIT.
_RATES = {
    "transactions": "tps",
    "queries": "qps",
    "read/write requests": "requests",
    "other operations": "requests",
}
# 1.1 has "time elapsed".
_TIMES = ("total time", "time elapsed")
# sysbench's other tests have totals, too, but no transactions.
_NO_DATABASE = (
    "no transactions in it: not a run of a database workload (sysbench cpu, memory, fileio, …)"
)
# Fewer transactions do not tell how many statements one has.
_ENOUGH = 1000


def parse_runs(text: str, origin: str) -> list[Totals]:
    """Return the totals of each run. UsageError, ``FILE:LINE: …``, if sysbench failed, if an output
    is cut short, if a number is malformed, or if this is not the output of a database workload.
    """
    lines = _remove_prefix(text.splitlines(), origin)
    parts = list(_split_runs(lines))
    runs = [_parse_run(part, origin) for part in parts if _is_run(part)]
    if not runs:
        if any(word in text for word in ("sysbench", "Number of threads", "SQL statistics")):
            raise _make_end_error(parts[-1], origin)
        raise UsageError(
            f"{origin}:1: not an output of sysbench, HammerDB, tpcc-mysql, BenchmarkSQL or "
            "mysqlslap"
        )
    return runs


def is_another_workload(run: Totals, other: Totals) -> bool:
    """Whether the statements of two runs show that they are of different workloads: only one of
    them writes, or a transaction has a fifth more statements.
    """
    if run.statements is None or other.statements is None:
        return False
    assert run.transactions and other.transactions
    if min(run.transactions, other.transactions) < _ENOUGH:
        return False
    fewer, more = sorted(((run.writes or 0), (other.writes or 0)))
    only_one_writes = fewer == 0 and more > 0.1 * min(run.transactions, other.transactions)
    low, high = sorted((run.statements, other.statements))
    return only_one_writes or low < 0.8 * high


def _remove_prefix(lines: list[str], origin: str) -> list[str]:
    """Return the lines without what a program that collected them put before each, as ``docker
    compose logs`` does (``client-1 | ``). Raises UsageError if it is not the same before all.
    """
    place = next((i for i, line in enumerate(lines) if "Number of threads:" in line), None)
    if place is None or lines[place].startswith("Number of threads:"):
        return lines
    prefix = lines[place].partition("Number of threads:")[0]
    bare = prefix.rstrip()
    if bare and all(line.startswith(prefix) or line.rstrip() in ("", bare) for line in lines):
        return [line[len(prefix) :] for line in lines]
    raise UsageError(
        f"{origin}:{place + 1}: {readers.shown(prefix)} stands before what sysbench printed, and "
        "not before every line; remove it"
    )


def _split_runs(lines: list[str]) -> Iterator[list[Numbered]]:
    """Yield the lines of each call of sysbench; its options begin one where a filter took its first
    line away.
    """
    part: list[Numbered] = []
    has_options = False
    for number, line in enumerate(lines, 1):
        of_options = bool(_OPTIONS.match(line))
        if part and (_BANNER.match(line) or (of_options and has_options)):
            yield part
            part, has_options = [], False
        part.append((number, line))
        has_options = has_options or of_options
    yield part or [(1, "")]


def _is_run(part: list[Numbered]) -> bool:
    """Whether this is a run, or a failure, and not what prepare and cleanup print."""
    patterns = (_OPTIONS, _THREADS, _TOTALS, _FATAL)
    return any(pattern.match(line) for _, line in part for pattern in patterns)


@dataclass(kw_only=True)
class _RunTotals:
    """What has been read of a run so far."""

    values: dict[str, float] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    has_totals: bool = False
    ended: bool = False

    def read_line(self, line: str, place: str) -> None:
        """Read a line; ``place``: FILE:LINE. Raises UsageError if a number in it is malformed."""
        if match := _THREADS.match(line):
            self.values["threads"] = parse_number(match[1], place)
        self.has_totals = self.has_totals or bool(_TOTALS.match(line))
        if not (named := _NAMED.match(line)):
            return
        name, value = named[1].lower(), named[2]
        self.ended = self.ended or name == _END
        if name in _TIMES:
            self.values["seconds"] = _parse_quantity(value, place)
        elif self.has_totals:
            self._read_total(name, value, place)

    def _read_total(self, name: str, value: str, place: str) -> None:
        if name in _RATES and (counted := _COUNTED.fullmatch(value)):
            key = _RATES[name]
            self.values[key] = self.values.get(key, 0.0) + parse_number(counted[2], place)
            if name == "transactions":
                self.values[name] = parse_number(counted[1], place)
        elif name in ("read", "write"):
            self.values[name] = parse_number(value, place)
        elif match := _PERCENTILE.fullmatch(name):
            if match[1] in ("95", "99"):
                unit = 1e3 if value.endswith("s") and not value.endswith("ms") else 1.0
                self.values[f"p{match[1]}"] = unit * _parse_quantity(value, place)
            else:
                self.unread.append(
                    f"{place}: the {match[1]}th percentile is left out: results have the 95th and "
                    "the 99th"
                )
        elif name not in _UNUSED and not self.ended:
            self.unread.append(f"{place}: not understood: {readers.shown(f'{name}: {value}')}")


def _parse_run(part: list[Numbered], origin: str) -> Totals:
    reading = _RunTotals()
    for number, line in part:
        if match := _FATAL.match(line):
            raise UsageError(f"{origin}:{number}: sysbench failed: {match[1]}")
        reading.read_line(line, f"{origin}:{number}")
    values = reading.values
    if not reading.ended or "tps" not in values:
        if reading.ended and not reading.has_totals:
            raise UsageError(f"{origin}:{part[0][0]}: {_NO_DATABASE}")
        raise _make_end_error(part, origin)

    def get_count(name: str) -> int | None:
        return int(values[name]) if name in values else None

    return Totals(
        line=part[0][0],
        tps=values["tps"],
        qps=values.get("qps", values.get("requests")),
        seconds=values.get("seconds"),
        threads=get_count("threads"),
        p95=values.get("p95"),
        p99=values.get("p99"),
        reads=get_count("read"),
        writes=get_count("write"),
        transactions=get_count("transactions"),
        unread=tuple(reading.unread),
    )


def _parse_quantity(text: str, place: str) -> float:
    """Parse a number with or without ``s`` or ``ms`` behind it."""
    match = _QUANTITY.fullmatch(text)
    return parse_number(match[1] if match else text, place)


def _make_end_error(part: list[Numbered], origin: str) -> UsageError:
    return UsageError(
        f"{origin}:{part[-1][0]}: sysbench's output is cut short here, before its totals"
    )
