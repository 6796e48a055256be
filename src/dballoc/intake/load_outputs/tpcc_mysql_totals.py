"""Parse what tpcc-mysql's ``tpcc_start`` prints. Pure.

Layout, by src/main.c of github.com/Percona-Lab/tpcc-mysql; newer versions append to the lines of
raw results::

    *** ###easy### TPC-C Load Generator ***
    <Parameters>
     [connection]: 16
        [measure]: 1200 (sec.)
    <Raw Results>
      [0] sc:1842  lt:2  rt:0  fl:0
     in 1200 sec.
    <TpmC>
                     92.200 TpmC

``[0]`` to ``[4]`` are the five kinds of transactions: done in time (``sc``), done late (``lt``),
retried, failed. TpmC counts new orders alone.
"""

import re

from dballoc.ground.errors import UsageError
from dballoc.intake.load_outputs.totals import (
    Numbered,
    Totals,
    describe_password,
    parse_number,
    split_runs,
)

_BEGINNING = re.compile(r"TPC-C Load Generator")
_CLIENTS = re.compile(r"^\s*\[connection\]: (\d{1,7})\s*$")
_PASSWORD = re.compile(r"^\s*\[pass\]: *\S")
_RAW = re.compile(r"^\s*<Raw Results>\s*$")
_KIND = re.compile(r"^\s*\[(\d)\] sc:(\d{1,15})\s+lt:(\d{1,15})\s+rt:\d{1,15}\s+fl:(\d{1,15})\b")
_SECONDS = re.compile(r"^\s*in (\d{1,9}) sec\.\s*$")
_RESULT = re.compile(r"^\s*(\S{1,40}) TpmC\s*$")
_KINDS = 5


def is_output(text: str) -> bool:
    """Whether a text is tpcc-mysql's."""
    return bool(_BEGINNING.search(text))


def parse_runs(text: str, origin: str) -> list[Totals]:
    """Return the totals of each run. UsageError, ``FILE:LINE: …``, if an output is cut short."""
    return [_parse_run(part, origin) for part in split_runs(text, _BEGINNING)]


def _parse_run(part: list[Numbered], origin: str) -> Totals:
    clients, seconds, orders = None, None, None
    kinds: dict[str, tuple[int, int]] = {}
    is_raw = False
    unread = []
    for number, line in part:
        place = f"{origin}:{number}"
        if match := _CLIENTS.match(line):
            clients = int(match[1])
        elif _PASSWORD.match(line):
            unread.append(describe_password(place))
        elif _RAW.match(line):
            is_raw = True
        elif is_raw and (match := _KIND.match(line)):
            kinds[match[1]] = int(match[2]) + int(match[3]), int(match[4])
        elif is_raw and (match := _SECONDS.match(line)):
            seconds, is_raw = int(match[1]), False
        elif match := _RESULT.match(line):
            orders = parse_number(match[1], place)
            unread.append(f"{place}: TpmC is left out: it has new orders alone")
    if orders is None or not seconds or len(kinds) != _KINDS:
        raise UsageError(
            f"{origin}:{part[-1][0]}: tpcc-mysql's output is cut short here, before its TpmC"
        )
    if failed := sum(failures for _, failures in kinds.values()):
        unread.append(f"{origin}:{part[0][0]}: {failed} transactions of the run failed")
    return Totals(
        line=part[0][0],
        tps=sum(made for made, _ in kinds.values()) / seconds,
        qps=None,
        seconds=seconds,
        threads=clients,
        unread=tuple(unread),
    )
