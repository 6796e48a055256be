"""Parse the totals that sysbench prints, 0.4 to 1.0. Pure.

A text may hold several runs, as a loop leaves that appends to one file, and what ``prepare`` and
``cleanup`` print between them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from dballoc.errors import UsageError

# PowerShell puts the program's name before what it writes to standard error.
_FATAL = re.compile(r"^(?:\S{1,200} : )?((?:FATAL|ALERT|PANIC)\b.*)")
_BANNER = re.compile(r"^sysbench \d")
_OPTIONS = re.compile(r"^Running the test with following options")
_THREADS = re.compile(r"^Number of threads:\s*(\d{1,9})")
_TRANSACTIONS = re.compile(
    r"^\s*transactions:\s*\d{1,18}\s*\(\s*(\d{1,15}(?:\.\d{1,12})?) per sec\.\)"
)
# 1.0 counts every query; older versions count requests and, apart, BEGIN and COMMIT.
_QUERIES = re.compile(r"^\s*queries:\s*\d+\s*\(\s*(\d{1,15}(?:\.\d{1,12})?) per sec\.\)")
_REQUESTS = re.compile(
    r"^\s*(?:read/write requests|other operations):\s*\d+\s*\(\s*(\d{1,15}(?:\.\d{1,12})?) per "
    r"sec\.\)"
)
_SECONDS = re.compile(r"^\s*total time:\s*(\d{1,15}(?:\.\d{1,12})?)s")
_PERCENTILE = re.compile(
    r"^\s*(?:approx\.\s*)?(95|99)(?:th)? percentile:\s*(\d{1,15}(?:\.\d{1,12})?)(?:ms)?\s*$"
)
# The last line in every version's output.
_END = re.compile(r"^\s*execution time \(avg/stddev\):")


@dataclass(frozen=True, kw_only=True)
class Totals:
    """The totals of a run that begins in ``line``; latencies in ms. None: the output does not
    tell.
    """

    line: int
    tps: float
    qps: float | None
    seconds: float | None
    threads: int | None
    p95: float | None
    p99: float | None


# A line of the text and its number.
_Numbered = tuple[int, str]


def parse_runs(text: str, origin: str) -> list[Totals]:
    """Return the totals of each run. UsageError, ``FILE:LINE: …``, if sysbench failed, if an output
    is cut short, or if this is none.
    """
    parts = list(_split_runs(text))
    runs = [_parse_run(part, origin) for part in parts if _is_run(part)]
    if not runs:
        if any(word in text for word in ("sysbench", "Number of threads", "SQL statistics")):
            _refuse_end(parts[-1], origin)
        raise UsageError(f"{origin}:1: not an output of sysbench")
    return runs


def _split_runs(text: str) -> Iterator[list[_Numbered]]:
    """Yield the lines of each call of sysbench; its options begin one where a filter took its first
    line away.
    """
    part: list[_Numbered] = []
    has_options = False
    for number, line in enumerate(text.splitlines(), 1):
        of_options = bool(_OPTIONS.match(line))
        if part and (_BANNER.match(line) or (of_options and has_options)):
            yield part
            part, has_options = [], False
        part.append((number, line))
        has_options = has_options or of_options
    yield part or [(1, "")]


def _is_run(part: list[_Numbered]) -> bool:
    """Whether this is a run, or a failure, and not what prepare and cleanup print."""
    patterns = (_OPTIONS, _THREADS, _TRANSACTIONS, _END, _FATAL)
    return any(pattern.match(line) for _, line in part for pattern in patterns)


def _parse_run(part: list[_Numbered], origin: str) -> Totals:
    values: dict[str, float] = {}
    ended = False
    for number, line in part:
        if match := _FATAL.match(line):
            raise UsageError(f"{origin}:{number}: sysbench failed: {match[1]}")
        if match := _PERCENTILE.match(line):
            values[f"p{match[1]}"] = float(match[2])
        if match := _REQUESTS.match(line):
            values["requests"] = values.get("requests", 0.0) + float(match[1])
        for name, pattern in (
            ("threads", _THREADS),
            ("tps", _TRANSACTIONS),
            ("qps", _QUERIES),
            ("seconds", _SECONDS),
        ):
            if match := pattern.match(line):
                values[name] = float(match[1])
        ended = ended or bool(_END.match(line))
    if not ended or "tps" not in values:
        _refuse_end(part, origin)
    return Totals(
        line=part[0][0],
        tps=values["tps"],
        qps=values.get("qps", values.get("requests")),
        seconds=values.get("seconds"),
        threads=int(values["threads"]) if "threads" in values else None,
        p95=values.get("p95"),
        p99=values.get("p99"),
    )


def _refuse_end(part: list[_Numbered], origin: str) -> NoReturn:
    raise UsageError(
        f"{origin}:{part[-1][0]}: sysbench's output is cut short here, before its totals"
    )
