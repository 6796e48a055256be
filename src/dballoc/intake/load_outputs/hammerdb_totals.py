"""Parse what HammerDB prints of timed TPROC-C runs (its console, or hammerdb.log). Pure.

Layout, as HammerDB's documentation has it (docs/ch04s08.html, ch09; issue 782 of
github.com/TPC-Council/HammerDB), and Vuser 1 is its monitor::

    Vuser 1:Timing test period of 5 in minutes
    Vuser 1:8 Active Virtual Users configured
    Vuser 1:TEST RESULT : System achieved 24510 NOPM from 61164 MariaDB TPM

Before version 4: ``System achieved 61164 MySQL TPM at 24510 NOPM``. Of MySQL and MariaDB, TPM are
the commits and rollbacks that the server counts (src/mysql/mysqloltp.tcl), as for our own runs of
HammerDB.
"""

import re
from dataclasses import dataclass, field

from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.intake.load_outputs.totals import Totals, describe_password, parse_number

_RESULT = re.compile(
    r"TEST RESULT : System achieved (?:"
    r"\S{1,40} NOPM from (?P<tpm>\S{1,40}) [A-Za-z0-9 ]{1,40} TPM"
    r"|(?P<old_tpm>\S{1,40}) [A-Za-z0-9 ]{1,40} TPM at \S{1,40} NOPM)"
)
_CLIENTS = re.compile(r"(\d{1,7}) Active Virtual Users configured")
_PERIOD = re.compile(r"Timing test period of (\d{1,6}) in minutes")
# Then a virtual user has many clients, and nothing says how many in all.
_MANY_EACH = re.compile(r"Vuser \d{1,7}:Started asynchronous clients")
_FAILED = re.compile(r"Error in Virtual User \d{1,7}:|Vuser \d{1,7}:FINISHED FAILED")
_PASSWORD = re.compile(r"Changed \w{1,40}:\w{0,40}pass(?:word)? from ")
_ANY = re.compile(r"Vuser 1:|Virtual Users Created|TEST RESULT : System achieved")


def is_output(text: str) -> bool:
    """Whether a text is HammerDB's."""
    return bool(_ANY.search(text))


@dataclass(kw_only=True)
class _RunSettings:
    """What has been read since the last result; ``runs``: those before it."""

    clients: int | None = None
    seconds: float | None = None
    is_many_each: bool = False
    unread: list[str] = field(default_factory=list)
    runs: list[Totals] = field(default_factory=list)


def parse_runs(text: str, origin: str) -> list[Totals]:
    """Return the totals of each run. UsageError, ``FILE:LINE: …``, if a client failed, if a number
    is malformed, or if there is no result.
    """
    settings, last = _RunSettings(), 1
    for last, line in enumerate(text.splitlines(), 1):
        place = f"{origin}:{last}"
        if _FAILED.search(line):
            raise UsageError(f"{place}: a client of HammerDB failed: {readers.shown(line.strip())}")
        if match := _PERIOD.search(line):
            settings.seconds = 60.0 * int(match[1])
        elif match := _CLIENTS.search(line):
            settings.clients = int(match[1])
        elif _MANY_EACH.search(line):
            settings.is_many_each = True
        elif _PASSWORD.search(line):
            settings.unread.append(describe_password(place))
        elif match := _RESULT.search(line):
            settings.runs.append(_make_totals(match, settings, place, last))
            settings = _RunSettings(runs=settings.runs)
    if not settings.runs:
        raise UsageError(
            f"{origin}:{last}: no TEST RESULT of HammerDB's before the end: cut short, or not a "
            "timed run"
        )
    return settings.runs


def _make_totals(match: re.Match[str], settings: _RunSettings, place: str, line: int) -> Totals:
    tpm = parse_number(match["tpm"] or match["old_tpm"], place)
    return Totals(
        line=line,
        tps=tpm / 60,
        qps=None,
        seconds=settings.seconds,
        threads=None if settings.is_many_each else settings.clients,
        unread=(
            *settings.unread,
            f"{place}: NOPM is left out: TPM has all transactions",
        ),
    )
