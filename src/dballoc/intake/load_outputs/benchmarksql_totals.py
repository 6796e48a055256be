"""Parse what BenchmarkSQL 5.0 prints. Pure.

Layout, as many public logs have it; what stands before ``Term-00`` is log4j's, and differs::

    14:40:50,115 [main] INFO   jTPCC : Term-00,      BenchmarkSQL v5.0
    14:40:50,136 [main] INFO   jTPCC : Term-00, terminals=16
    14:40:50,140 [main] INFO   jTPCC : Term-00, limitTxnsPerMin=0
    14:45:51,554 [Thread-7] INFO   jTPCC : Term-00, Measured tpmC (NewOrders) = 445.25
    14:45:51,554 [Thread-7] INFO   jTPCC : Term-00, Measured tpmTOTAL = 985.38
    14:45:51,554 [Thread-7] INFO   jTPCC : Term-00, Session Start     = 2025-03-18 14:40:51
    14:45:51,554 [Thread-7] INFO   jTPCC : Term-00, Session End       = 2025-03-18 14:45:51
"""

import re
from datetime import datetime

from dballoc.ground.errors import UsageError
from dballoc.intake.load_outputs.totals import (
    Numbered,
    Totals,
    describe_password,
    parse_number,
    split_runs,
)

_BEGINNING = re.compile(r"BenchmarkSQL v\d")
_SETTING = re.compile(r"Term-00, (terminals|limitTxnsPerMin)=(\d{1,9})\s*$")
_RESULT = re.compile(r"Term-00, Measured (tpmC \(NewOrders\)|tpmTOTAL) = (\S{1,40})")
_TIME = re.compile(r"Term-00, Session (Start|End)\s{0,20}= (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
_PASSWORD = re.compile(r"Term-00, conn=jdbc:\S{1,1000}password=", re.IGNORECASE)
_TOTAL = "tpmTOTAL"


def is_output(text: str) -> bool:
    """Whether a text is BenchmarkSQL's."""
    return bool(_BEGINNING.search(text))


def parse_runs(text: str, origin: str) -> list[Totals]:
    """Return the totals of each run. UsageError, ``FILE:LINE: …``, if an output is cut short, or if
    a number is malformed.
    """
    return [_parse_run(part, origin) for part in split_runs(text, _BEGINNING)]


def _parse_run(part: list[Numbered], origin: str) -> Totals:
    settings: dict[str, int] = {}
    results: dict[str, float] = {}
    times: dict[str, datetime] = {}
    unread = []
    for number, line in part:
        place = f"{origin}:{number}"
        if match := _SETTING.search(line):
            settings[match[1]] = int(match[2])
            if match[1] != "terminals" and int(match[2]):
                unread.append(f"{place}: the load was limited: {match[1]}={match[2]}")
        elif match := _RESULT.search(line):
            results[match[1]] = parse_number(match[2], place)
            if match[1] != _TOTAL:
                unread.append(f"{place}: tpmC is left out: tpmTOTAL has all transactions")
        elif _PASSWORD.search(line):
            unread.append(describe_password(place))
        elif match := _TIME.search(line):
            times[match[1]] = _parse_time(match[2], place)
    if _TOTAL not in results:
        raise UsageError(
            f"{origin}:{part[-1][0]}: BenchmarkSQL's output is cut short here, before its tpmTOTAL"
        )
    seconds = (times["End"] - times["Start"]).total_seconds() if len(times) == 2 else 0.0
    return Totals(
        line=part[0][0],
        tps=results[_TOTAL] / 60,
        qps=None,
        seconds=seconds if seconds > 0 else None,
        threads=settings.get("terminals"),
        unread=tuple(unread),
    )


def _parse_time(text: str, place: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{place}: {text!r} is not a time") from None
