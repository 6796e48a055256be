"""Cases of free memory that a malloc keeps."""

import random
import threading
import time
from collections.abc import Iterator
from typing import Any

from dballoc.allocators import find_library
from report_cases.case import Case, Judgement, judge_absence, judge_words
from report_cases.private_server import PrivateServer, Workshop

MIB = 1 << 20
# InnoDB's background thread has written a full-text cache's words after so many seconds.
_FLUSHED = 6.0


def list_remedies(document: dict[str, Any], key: str) -> str:
    """Return the remedies of a verdict as one text; empty if it is not given."""
    return "\n".join(
        remedy
        for verdict in document["verdicts"]
        if verdict["key"] == key
        for remedy in verdict["remedies"]
    )


def judge_trim(server: PrivateServer, least: int) -> Judgement:
    """Judge whether ``--trim`` gives back ``least`` bytes of RSS."""
    server.run_dballoc("explain", "--socket", server.socket, "--install-function", "--yes")
    before = server.measure_rss()
    server.run_dballoc("explain", "--socket", server.socket, "--trim", "--yes")
    returned = before - server.measure_rss()
    return Judgement(
        subject="RSS after --trim",
        printed=f"−{returned / MIB:.1f} MiB",
        right=f"at least −{least / MIB:.0f} MiB",
        passed=returned >= least,
    )


def fill_text_indexes(server: PrivateServer, tables: int = 20) -> None:
    """Fill tables with a full-text index each, 750 rows of 40 words that no other row has."""
    words = random.Random(1)
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE a")
        cursor.execute("USE a")
        for table in range(tables):
            cursor.execute(
                f"CREATE TABLE f{table} (id INT PRIMARY KEY AUTO_INCREMENT, d TEXT, FULLTEXT (d))"
            )
            for _ in range(3):
                rows = ", ".join(
                    "('" + " ".join(f"w{words.randrange(1 << 24):06x}" for _ in range(40)) + "')"
                    for _ in range(250)
                )
                cursor.execute(f"INSERT INTO f{table} (d) VALUES {rows}")  # noqa: S608


def keep_after_text_indexes(workshop: Workshop) -> Iterator[Judgement]:
    """One arena of glibc's holds most of what is free; fewer arenas do not help."""
    with workshop.start("mariadb", "--innodb-ft-cache-size=8000000") as server:
        fill_text_indexes(server)
        time.sleep(_FLUSHED)
        advice = list_remedies(server.explain(), "fragmentation")
        yield judge_absence("advice", advice, "MALLOC_ARENA_MAX")
        yield judge_words("advice", advice, "--trim")
        yield judge_trim(server, 15 * MIB)


def keep_after_large_packets(workshop: Workshop) -> Iterator[Judgement]:
    """Tcmalloc keeps what large statements needed, at every release rate."""
    library = str(find_library.find_allocator("tcmalloc").libraries[0])
    with workshop.start("mariadb", environment={"LD_PRELOAD": library}) as server:
        threads = [threading.Thread(target=send_large, args=(server,)) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(1)
        server.run_dballoc("explain", "--socket", server.socket, "--install-function", "--yes")
        advice = list_remedies(server.explain(), "fragmentation")
        yield judge_absence("advice", advice, "TCMALLOC_RELEASE_RATE")
        yield judge_words("advice", advice, "--trim")
        yield judge_trim(server, 150 * MIB)


def send_large(server: PrivateServer) -> None:
    """Keep a value of 15 MB in a session for two seconds."""
    server.query("SET @a = REPEAT('x', 15000000)", "SELECT SLEEP(2)")


CASES = [
    Case(name="03b", report="MySQL bugs 116272, 95065", run=keep_after_text_indexes),
    Case(name="10b", report="gperftools#1382, #1610", run=keep_after_large_packets),
]
