"""What `dballoc explain` says of ordinary loaded servers, where nothing is wrong.

    python benchmarks/ordinary_servers.py [--seconds 20] [--clients 16]

Eight servers: MariaDB and MySQL 9.7, each under glibc and jemalloc, with two loads: short
transactions, and sorts, groups and temporary tables. Each is looked at while its clients are at
work, without performance_schema's memory instruments, as servers come. A line for each: what is
likely, which verdicts are problems, and what the advice to trim gives back where it is given. The
exit status is 1 if a suspect is called likely, or trimming is advised and gives back less than half
of what is said.
"""

import argparse
import random
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pymysql
from report_cases.private_server import PrivateServer, Workshop

from dballoc.allocators import find_library
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.numbers import with_unit
from dballoc.servers import build as server_builds

SERVERS = ("mariadb", "mysql@9.7")
ROWS = 40_000
TRIM = re.compile(r"--trim .* gives back (?:about|up to) ([\d.]+) (MiB|GiB)")
UNITS = {"MiB": 1 << 20, "GiB": 1 << 30}
Work = Callable[[pymysql.cursors.Cursor, random.Random], None]


def find_malloc(server: str, malloc: str) -> dict[str, str]:
    """Return what makes a server run on a malloc, whatever it is linked against."""
    if malloc != "glibc":
        return {"LD_PRELOAD": str(find_library.find_allocator(malloc).libraries[0])}
    libraries = sorted(server_builds.find(server, None).basedir.rglob("libc.so.6"))
    return {"LD_PRELOAD": str(libraries[0])} if libraries and server != "mariadb" else {}


def work_shortly(cursor: pymysql.cursors.Cursor, draw: random.Random) -> None:
    """A short transaction: five reads, two writes."""
    cursor.execute("BEGIN")
    for _ in range(5):
        cursor.execute("SELECT c FROM o.t WHERE id = %s", (draw.randrange(ROWS),))
        cursor.fetchall()
    cursor.execute("UPDATE o.t SET k = k + 1 WHERE id = %s", (draw.randrange(ROWS),))
    cursor.execute(
        "UPDATE o.t SET c = %s WHERE id = %s", (f"{draw.random():.40f}", draw.randrange(ROWS))
    )
    cursor.execute("COMMIT")


def work_at_length(cursor: pymysql.cursors.Cursor, draw: random.Random) -> None:
    """A sort, a group in a temporary table, and a join."""
    first = draw.randrange(ROWS - 4000)
    for statement in (
        "SELECT c FROM o.t WHERE id BETWEEN %s AND %s + 3000 ORDER BY c",
        "SELECT k, COUNT(*), MAX(c) FROM o.t WHERE id BETWEEN %s AND %s + 3000 GROUP BY k, c",
        "SELECT COUNT(*) FROM o.t a JOIN o.t b ON a.id = b.k WHERE a.id BETWEEN %s AND %s + 500",
    ):
        cursor.execute(statement, (first, first))
        cursor.fetchall()


LOADS: dict[str, Work] = {"short transactions": work_shortly, "sorts and groups": work_at_length}


def fill_table(server: PrivateServer) -> None:
    """Make the table that all loads use."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE o")
        cursor.execute("CREATE TABLE o.t (id INT PRIMARY KEY, k INT, c VARCHAR(120), KEY (k))")
        for first in range(0, ROWS, 2000):
            values = [(i, i * 7919 % 5000, f"{i:0100d}") for i in range(first, first + 2000)]
            cursor.executemany("INSERT INTO o.t VALUES (%s, %s, %s)", values)


def load(server: PrivateServer, work: Work, clients: int, ended: threading.Event) -> None:
    """Start the clients; each works until ``ended``."""

    def run(seed: int) -> None:
        draw = random.Random(seed)
        with server.connect() as connection, connection.cursor() as cursor:
            while not ended.is_set():
                try:
                    work(cursor, draw)
                except pymysql.err.OperationalError:
                    cursor.execute("ROLLBACK")

    for seed in range(clients):
        threading.Thread(target=run, args=(seed,), daemon=True).start()


def look(server: PrivateServer, work: Work, request: argparse.Namespace) -> tuple[str, bool]:
    """Return what is said of a server at work, in a line's cells, and whether that is right."""
    fill_table(server)
    ended = threading.Event()
    load(server, work, request.clients, ended)
    try:
        time.sleep(request.seconds)
        document = server.explain()
        verdicts = document["verdicts"]
        likely = [line for v in verdicts for line in v["evidence"] if line.startswith("likely: ")]
        problems = [v["headline"] for v in verdicts if v["level"] == "problem"]
        advice = TRIM.search(" ".join(r for v in verdicts for r in v["remedies"]))
    finally:
        ended.set()
    time.sleep(1)
    right, trimmed = not likely, ""
    if advice:
        promised = float(advice[1]) * UNITS[advice[2]]
        server.run_dballoc("explain", "--socket", server.socket, "--install-function", "--yes")
        before = server.measure_rss()
        server.run_dballoc("explain", "--socket", server.socket, "--trim", "--yes")
        returned = before - server.measure_rss()
        trimmed = f"{with_unit(max(0, returned))} of {with_unit(int(promised))}"
        right &= returned >= promised / 2
    return (
        f"{with_unit(document['rss'])} | {with_unit(document['unowned'])} | "
        f"{'; '.join(likely) or 'none'} | {'; '.join(problems) or 'none'} | {trimmed}"
    ), right


def main() -> int:
    """Run and print, server by server."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--clients", type=int, default=16)
    request = parser.parse_args()
    print(
        "| server | malloc | load | RSS | unowned | likely | problems | trimmed |\n"
        "| --- | --- | --- | --: | --: | --- | --- | --- |"
    )
    results = []
    with tempfile.TemporaryDirectory(prefix="ordinary-") as place:
        workshop = Workshop(Path(place))
        for use in SERVERS:
            for malloc in ("glibc", "jemalloc"):
                for name, work in LOADS.items():
                    try:
                        with workshop.start(use, environment=find_malloc(use, malloc)) as server:
                            said, right = look(server, work, request)
                    except (Failure, UsageError, pymysql.Error) as error:
                        said, right = f"{error} | | | |", False
                    print(f"| {use} | {malloc} | {name} | {said} |", flush=True)
                    results.append(right)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
