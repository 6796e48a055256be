"""Cases of what is resident: a pool that vanished, bytes that were only asked for, mapped files."""

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dballoc.ground.errors import Failure
from dballoc.host.process.handle import Process
from dballoc.process import smaps
from report_cases.case import Case, Judgement, judge_bytes, judge_words
from report_cases.private_server import PrivateServer, Workshop

MIB = 1 << 20
POOL, DOUBLEWRITE = "InnoDB buffer pool", "InnoDB doublewrite pages, read at its start"
_PROVIDER = "usr/lib/galera/libgalera_smm.so"
# Seconds for a statement to fill its table, and for InnoDB to free a dropped one's pages.
_FILLED, _DROPPED = 40.0, 5.0
_NUMBERS = (
    "(WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < {most}) "
    "SELECT a.n * 1000 + b.n id FROM r a, r b LIMIT {rows}) s"
)


def find_line(document: dict[str, Any], owner: str) -> dict[str, Any]:
    """Return a line of the ledger; one of no bytes if it is not there."""
    nothing = {"owner": owner, "resident": 0, "size": 0, "least": None, "most": None, "parts": []}
    return next((line for line in document["lines"] if line["owner"] == owner), nothing)


def find_verdict(document: dict[str, Any], *keys: str) -> str:
    """Return the headline, evidence and remedies of the verdicts with these keys."""
    return " ".join(
        " ".join([verdict["headline"], *verdict["evidence"], *verdict["remedies"]])
        for verdict in document["verdicts"]
        if verdict["key"] in keys
    )


def judge_interval(subject: str, least: int, most: int, right: int) -> Judgement:
    """Judge whether an interval has the right figure, give or take a mebibyte."""
    return Judgement(
        subject=subject,
        printed=f"{least / MIB:,.1f} to {most / MIB:,.1f} MiB",
        right=f"has {right / MIB:,.1f} MiB",
        passed=least - MIB <= right <= most + MIB,
    )


def read_status(server: PrivateServer, name: str) -> int:
    """Return a status variable as a number."""
    return int(server.query(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1])


def lose_pool(workshop: Workshop) -> Iterator[Judgement]:
    """MySQL maps 4 KiB for getrandom(3) that are left out of core dumps, too."""
    with workshop.start("mysql@9.7", "--innodb-buffer-pool-size=256M") as server:
        rows = _NUMBERS.format(most=900, rows=150000)
        server.query(
            "CREATE DATABASE a",
            "CREATE TABLE a.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(1000))",
            "SET SESSION cte_max_recursion_depth = 2000",
            f"INSERT INTO a.t (v) SELECT REPEAT('x', 1000) FROM {rows}",  # noqa: S608
            "INSERT INTO a.t (v) SELECT v FROM a.t LIMIT 40000",
        )
        document = server.explain()
        pages = read_status(server, "Innodb_buffer_pool_pages_total") - read_status(
            server, "Innodb_buffer_pool_pages_free"
        )
        resident = find_line(document, POOL)["resident"]
        yield judge_bytes("the pool's line", resident, pages * 16384, 0.06)
        yield Judgement(
            subject="unowned",
            printed=f"{document['unowned'] / document['rss']:.0%}",
            right="at most 10%",
            passed=document["unowned"] <= 0.1 * document["rss"],
        )


def ask_for_more_than_is_touched(workshop: Workshop) -> Iterator[Judgement]:
    """A statement's temporary table has blocks of 255 MiB and fills the last one in part."""
    options = ("--temptable-max-ram=268435456", "--tmp-table-size=200M", "--performance-schema=ON")
    with workshop.start("mysql@9.7", *options) as server:
        rows = _NUMBERS.format(most=700, rows=300000)
        server.query(
            "CREATE DATABASE a",
            "SET SESSION cte_max_recursion_depth = 2000",
            f"CREATE TABLE a.t AS SELECT id, REPEAT('x', 180) v FROM {rows}",  # noqa: S608
        )
        idle, rss = server.explain(), server.measure_rss()
        statement = (
            "SELECT COUNT(*), SLEEP(12) FROM (SELECT id, v, COUNT(*) c FROM a.t GROUP BY id, v) d"
        )
        thread = threading.Thread(target=server.query, args=(statement,))
        thread.start()
        wait_for_bytes(server, "memory/temptable/physical_ram", 255 * MIB)
        time.sleep(1)
        rise, busy = server.measure_rss() - rss, server.explain()
        thread.join()
        sessions = find_line(busy, "sessions")
        yield judge_bytes("asked for by sessions", sessions["size"], 255 * MIB, 0.02)
        yield judge_interval("sessions", sessions["least"], sessions["most"], rise)
        for owner in (DOUBLEWRITE, "InnoDB log buffers"):
            before = find_line(idle, owner)["resident"]
            yield judge_bytes(
                f"{owner}, unchanged", find_line(busy, owner)["resident"], before, 0.02
            )
        yield judge_interval("unowned", busy["unowned"], busy["unowned_most"], idle["unowned"])


def wait_for_bytes(server: PrivateServer, event: str, least: int) -> None:
    """Wait until an instrument counts so many bytes. Failure if it does not come to them."""
    deadline = time.monotonic() + _FILLED
    while time.monotonic() < deadline:
        rows = server.query(
            "SELECT CURRENT_NUMBER_OF_BYTES_USED FROM "  # noqa: S608
            f"performance_schema.memory_summary_global_by_event_name WHERE EVENT_NAME = '{event}'"
        )
        if rows and rows[0][0] >= least:
            return
        time.sleep(0.3)
    raise Failure(f"{event} does not come to {least / MIB:.0f} MiB")


def keep_statements_open(workshop: Workshop) -> Iterator[Judgement]:
    """6,000 prepared statements in one connection: one figure on the page, and what was asked."""
    with workshop.start("mariadb", "--max-prepared-stmt-count=100000") as server:
        server.query("CREATE DATABASE a", "CREATE TABLE a.t (a INT PRIMARY KEY, b INT, c CHAR(99))")
        before = server.measure_rss()
        with server.connect() as connection, connection.cursor() as cursor:
            for number in range(6000):
                cursor.execute(
                    f"PREPARE s{number} FROM 'SELECT a, b, c, {number} FROM a.t "  # noqa: S608
                    "WHERE a = ? AND b IN (?, ?, ?, ?) ORDER BY c'"
                )
            rise = server.measure_rss() - before
            document = server.explain()
            [(requested,)] = server.query(
                "SELECT SUM(MEMORY_USED) FROM information_schema.PROCESSLIST"
            )
        sessions = find_line(document, "sessions")
        share = f"{round(100 * sessions['resident'] / document['rss'])} % of RSS"
        yield judge_words(
            "the verdict's share is the line's", find_verdict(document, "sessions"), share
        )
        yield judge_bytes("resident", sessions["resident"], rise, 0.1)
        yield judge_bytes("asked for", sessions["size"], int(requested), 0.05)


def drop_table(workshop: Workshop) -> Iterator[Judgement]:
    """The pages of a dropped table are free, and stay resident."""
    with workshop.start("mariadb", "--innodb-buffer-pool-size=256M") as server:
        server.query(
            "CREATE DATABASE a",
            "CREATE TABLE a.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(1000))",
            "INSERT INTO a.t (v) SELECT REPEAT('x', 1000) FROM a.seq_1_to_180000",
            "DROP TABLE a.t",
        )
        time.sleep(_DROPPED)
        pool = max(
            (m for m in smaps.read_smaps(Process.open(server.pid)) if "dd" in (m.flags or ())),
            key=lambda m: m.size,
        )
        said = find_verdict(server.explain(), "pool")
        right = (pool.size - pool.rss) / MIB
        yield judge_words("RSS can rise by", said, f"RSS can rise by {right:.1f} MiB more")


def fill_gcache(workshop: Workshop) -> Iterator[Judgement]:
    """Galera's write sets lie in a mapped file."""
    provider = find_provider(workshop)
    cache = workshop.place / "gcache"
    cache.mkdir(exist_ok=True)
    options = (
        f"gcache.size=96M;gcache.dir={cache};gmcast.listen_addr=tcp://127.0.0.1:14567;"
        "ist.recv_addr=127.0.0.1:14568"
    )
    with workshop.start(
        "mariadb",
        "--wsrep-on=ON",
        f"--wsrep-provider={provider}",
        "--wsrep-cluster-address=gcomm://",
        "--wsrep-node-address=127.0.0.1",
        "--wsrep-new-cluster",
        "--binlog-format=ROW",
        "--innodb-autoinc-lock-mode=2",
        f"--wsrep-provider-options={options}",
    ) as server:
        server.query("CREATE DATABASE a", "CREATE TABLE a.t (id INT PRIMARY KEY, v MEDIUMTEXT)")
        for _ in range(16):
            server.query(
                "INSERT INTO a.t SELECT seq, REPEAT('x', 1000000) FROM a.seq_1_to_8",
                "DELETE FROM a.t",
            )
        document = server.explain()
        line = find_line(document, "mapped file galera.cache")
        right = sum(
            m.rss
            for m in smaps.read_smaps(Process.open(server.pid))
            if m.path.endswith("galera.cache")
        )
        yield judge_bytes("galera.cache", line["resident"], right, 0.01)
        yield judge_words("what it is", find_verdict(document, "owner"), r"gcache\.size")
        yield judge_words(
            "can the kernel take it back", line.get("note", ""), "written to the file"
        )


def find_provider(workshop: Workshop) -> Path:
    """Return Galera's library: this machine's, or one that is unpacked for the time of the case."""
    installed = Path("/", _PROVIDER)
    if installed.exists():
        return installed
    place = workshop.place / "galera"
    place.mkdir(exist_ok=True)
    apt, dpkg = shutil.which("apt-get"), shutil.which("dpkg")
    if not (apt and dpkg):
        raise Failure("there is no Galera here, and no apt-get to get it with")
    subprocess.run([apt, "download", "galera-4"], cwd=place, capture_output=True, timeout=60)
    for package in place.glob("*.deb"):
        subprocess.run([dpkg, "-x", package, place], check=True, timeout=60)
    if not (place / _PROVIDER).exists():
        raise Failure("Galera cannot be downloaded (apt-get download galera-4)")
    return place / _PROVIDER


CASES = [
    Case(name="13c", report="met on the way", run=lose_pool),
    Case(name="32b", report="percona-server#5027", run=ask_for_more_than_is_touched),
    Case(name="01", report="vapor/mysql-kit#164", run=keep_statements_open),
    Case(name="11", report="jelastic-jps/mysql-cluster#50", run=drop_table),
    Case(name="12", report="percona/galera#29, #91", run=fill_gcache),
]
