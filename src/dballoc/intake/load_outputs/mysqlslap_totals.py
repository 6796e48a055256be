"""Parse what mysqlslap and mariadb-slap print. Pure.

Layout, by ``print_conclusions`` in client/mysqlslap.c of MariaDB and MySQL, one for each number of
clients and each engine::

    Benchmark
            Running for engine innodb
            Average number of seconds to run all queries: 8.753 seconds
            Minimum number of seconds to run all queries: 8.700 seconds
            Maximum number of seconds to run all queries: 8.774 seconds
            Number of clients running queries: 10
            Average number of queries per client: 1000

Every client makes that number of queries (``run_task``). Averages, minimum and maximum are over its
iterations, of which it prints no more. It counts no transactions.
"""

import re

from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.intake.load_outputs.totals import Numbered, Totals, parse_number, split_runs

_BEGINNING = re.compile(r"^Benchmark\s*$")
_SECONDS = re.compile(r"^\s*(Average|Minimum|Maximum) number of seconds to run all queries: (.*)$")
_CLIENTS = re.compile(r"^\s*Number of clients running queries: (\d{1,7})\s*$")
_QUERIES = re.compile(r"^\s*Average number of queries per client: (\d{1,15})\s*$")
_ENGINE = re.compile(r"^\s*Running for engine (\S{1,64})\s*$")
_ANY = re.compile(r"^[ \t]*Average number of seconds to run all queries: ", re.MULTILINE)


def is_output(text: str) -> bool:
    """Whether a text is mysqlslap's."""
    return bool(_ANY.search(text))


def parse_runs(text: str, origin: str) -> list[Totals]:
    """Return the totals of each number of clients. UsageError, ``FILE:LINE: …``, if an output is
    cut short, if a number is malformed, or if there are several engines.
    """
    parts = list(split_runs(text, _BEGINNING))
    if not parts:
        raise UsageError(f"{origin}:1: mysqlslap's output lacks its line 'Benchmark'")
    _check_engines(parts, origin)
    return [_parse_run(part, origin) for part in parts]


def _check_engines(parts: list[list[Numbered]], origin: str) -> None:
    first: tuple[int, str] | None = None
    for number, line in (numbered for part in parts for numbered in part):
        if match := _ENGINE.match(line):
            first = first or (number, match[1])
            if match[1] != first[1]:
                raise UsageError(
                    f"{origin}:{number}: engine {readers.shown(match[1])}, but "
                    f"{readers.shown(first[1])} in line {first[0]}; give each a file of its own"
                )


def _parse_run(part: list[Numbered], origin: str) -> Totals:
    seconds: dict[str, float] = {}
    clients = queries = 0
    for number, line in part:
        if match := _SECONDS.match(line):
            seconds[match[1]] = parse_number(
                match[2].strip().removesuffix(" seconds"), f"{origin}:{number}"
            )
        elif match := _CLIENTS.match(line):
            clients = int(match[1])
        elif match := _QUERIES.match(line):
            queries = int(match[1])
    beginning = part[0][0]
    if len(seconds) < 3 or not clients:
        raise UsageError(f"{origin}:{part[-1][0]}: mysqlslap's output is cut short here")
    if not queries or not seconds["Average"]:
        raise UsageError(
            f"{origin}:{beginning}: {queries} queries per client in {seconds['Average']:g} s: too "
            "few to tell how many per second"
        )
    unread: list[str] = []
    if seconds["Minimum"] != seconds["Maximum"]:
        unread.append(
            f"{origin}:{beginning}: the mean of several iterations; minimum and maximum are left "
            "out"
        )
    return Totals(
        line=beginning,
        tps=None,
        qps=clients * queries / seconds["Average"],
        seconds=seconds["Average"],
        threads=clients,
        unread=tuple(unread),
    )
