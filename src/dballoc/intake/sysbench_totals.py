"""Parse the totals that sysbench prints, 0.4 to 1.0. Pure."""

import re
from dataclasses import dataclass

from dballoc.errors import UsageError

_FATAL = re.compile(r"^(?:FATAL|ALERT|PANIC)\b.*")
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
    """The totals of a run; latencies in ms. None: the output does not tell."""

    tps: float
    qps: float | None
    seconds: float | None
    threads: int | None
    p95: float | None
    p99: float | None


def parse_totals(text: str, origin: str) -> Totals:
    """Return the totals. UsageError, ``FILE:LINE: …``, if sysbench failed, if its output is cut
    short, or if this is not one.
    """
    lines = text.splitlines()
    values: dict[str, float] = {}
    ended = False
    for number, line in enumerate(lines, 1):
        if match := _FATAL.match(line):
            raise UsageError(f"{origin}:{number}: sysbench failed: {match[0]}")
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
        last = max(1, len(lines))
        if not any(word in text for word in ("sysbench", "Number of threads", "SQL statistics")):
            raise UsageError(f"{origin}:1: not an output of sysbench")
        raise UsageError(f"{origin}:{last}: sysbench's output is cut short here, before its totals")
    return Totals(
        tps=values["tps"],
        qps=values.get("qps", values.get("requests")),
        seconds=values.get("seconds"),
        threads=int(values["threads"]) if "threads" in values else None,
        p95=values.get("p95"),
        p99=values.get("p99"),
    )
