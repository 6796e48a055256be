"""The advice of verdicts on real servers that use the thing: what is advised is above what was in
use, and can be followed.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pymysql
import pytest
from harness import Cli, StartServer
from harness import Server as AccountServer

from dballoc.allocators import find_library
from dballoc.catalogue import verdicts as limits
from dballoc.explain import explanation
from dballoc.explain.verdicts import verdicts
from dballoc.explain.verdicts.verdict import MemoryVerdict
from dballoc.ground.errors import UsageError
from dballoc.host.process.handle import Process
from dballoc.host.settings import thp
from dballoc.servers.running.credentials import Credentials

MIB = 1 << 20
DAY = 86400
LOGIN = Credentials(user="root", password=None)
SMALL = ("--innodb-buffer-pool-size=8M", "--key-buffer-size=16K")
Server = tuple[int, Path]


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """Here a server outlives a test on purpose; the module's own fixture ends it."""


@pytest.fixture(scope="module")
def server(stock_server: StartServer) -> Server:
    return stock_server(
        "--innodb-buffer-pool-size=16M",
        "--key-buffer-size=16K",
        "--aria-pagecache-buffer-size=128M",
        "--query-cache-type=1",
        "--query-cache-size=64M",
        "--query-cache-limit=8M",
        "--performance-schema=ON",
    )


@pytest.fixture
def cursor(server: Server) -> Iterator[pymysql.cursors.Cursor]:
    with (
        pymysql.connect(unix_socket=str(server[1]), autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE DATABASE IF NOT EXISTS a")
        yield cursor


def judge(server: Server, key: str, **figures: int) -> MemoryVerdict | None:
    """The verdict with that key, as if the server had run for a day with these figures."""
    reading = explanation.explain(Process.open(server[0]), LOGIN)
    aged = {**reading.evidence.figures, "uptime": DAY, "uptime_since_flush_status": DAY, **figures}
    moment = reading.moment._replace(evidence=replace(reading.evidence, figures=aged))
    judged = verdicts.judge_moments([moment], reading.bounds, limits())
    return next((verdict for verdict in judged if verdict.key == key), None)


def read_status(cursor: pymysql.cursors.Cursor, name: str) -> int:
    cursor.execute(f"SHOW GLOBAL STATUS LIKE '{name}'")
    [(_, value)] = cursor.fetchall()
    return int(value)


def test_the_aria_page_cache_keeps_what_a_temporary_table_needed(
    server: Server, cursor: pymysql.cursors.Cursor
) -> None:
    """It was on disk, and is gone."""
    cursor.execute("CREATE TABLE a.t (c VARCHAR(4000)) ENGINE=Aria")
    cursor.execute("INSERT INTO a.t SELECT REPEAT('x', 4000) FROM a.seq_1_to_5000")
    cursor.execute("DROP TABLE a.t")
    most = read_status(cursor, "Aria_pagecache_blocks_used") * 8192
    unused = read_status(cursor, "Aria_pagecache_blocks_unused") * 8192
    assert most > 30 * MIB
    assert 128 * MIB - unused / 0.955 < most / 2, "nothing was given back"
    verdict = judge(server, "cache", aria_pagecache_read_requests=10**9)
    assert verdict
    assert "Aria page cache" in verdict.headline
    [remedy] = verdict.remedies
    [size] = re.findall(r"aria_pagecache_buffer_size = (\d+) in my.cnf \(restart\)", remedy)
    assert 1.2 * most <= int(size) < 120 * MIB
    assert "it costs a restart" in remedy


def test_a_query_cache_is_not_too_large_because_a_write_has_emptied_it(
    server: Server, cursor: pymysql.cursors.Cursor
) -> None:
    cursor.execute("CREATE TABLE a.q (n INT, c LONGTEXT)")
    for number in range(30):
        cursor.execute(f"INSERT INTO a.q VALUES ({number}, REPEAT('x', 1000000))")
    for number in range(30):
        cursor.execute(f"SELECT c FROM a.q WHERE n = {number}")
        cursor.fetchall()
    filled = 64 * MIB - read_status(cursor, "Qcache_free_memory")
    assert filled > 25 * MIB
    busy, idle = {"qcache_hits": 10**9}, {"qcache_hits": 0}
    # Aria's is larger; here it is as if it were small and busy.
    other = {"aria_pagecache_blocks_used": 15_000, "aria_pagecache_read_requests": 10**9}
    verdict = judge(server, "cache", **idle, **other)
    assert verdict
    assert "query cache" in verdict.headline
    [size] = re.findall(r"SET GLOBAL query_cache_size = (\d+)", verdict.remedies[0])
    assert int(size) >= 1.2 * filled
    cursor.execute("UPDATE a.q SET n = n + 1")
    assert 64 * MIB - read_status(cursor, "Qcache_free_memory") < filled / 2
    verdict = judge(server, "cache", **busy, **other)
    assert verdict
    assert (verdict.level, verdict.remedies) == ("notice", [])


def test_performance_schema_keeps_more_rows_than_are_used(
    server: Server, cursor: pymysql.cursors.Cursor
) -> None:
    verdict = judge(server, "performance_schema")
    assert verdict
    off, fewer = verdict.remedies
    assert off.startswith("if nobody reads it: performance_schema=OFF; it costs a restart")
    cursor.execute("SELECT @@performance_schema_digests_size")
    [(digests,)] = cursor.fetchall()
    assert f"performance_schema_digests_size (now {digests:,})" in fewer
    assert re.search(r"above Open_tables at its highest \(now [1-9]\d*\)", fewer)


def test_memory_of_nobody_is_looked_for_with_instruments_that_can_be_set(
    stock_server: StartServer,
) -> None:
    """As it says: the server starts with them, and then they are not advised again."""
    options = (*SMALL, "--query-cache-size=0")
    small = stock_server(*options, "--max-heap-table-size=256M")
    with (
        pymysql.connect(unix_socket=str(small[1]), autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE DATABASE m")
        cursor.execute("CREATE TABLE m.t (c CHAR(250)) ENGINE=MEMORY CHARSET=latin1")
        cursor.execute("INSERT INTO m.t SELECT REPEAT('x', 250) FROM m.seq_1_to_400000")
        verdict = judge(small, "unowned")
    assert verdict
    advised = " ".join(verdict.remedies)
    settings = re.findall(r"(performance_schema\S*=\S+?)[,;]", advised)
    assert len(settings) == 2
    counting = stock_server(*options, *(f"--{each.replace(chr(39), '')}" for each in settings))
    assert explanation.explain(Process.open(counting[0]), LOGIN).evidence.counted


@pytest.fixture(scope="module")
def huge(stock_server: StartServer) -> Server:
    """On a jemalloc that asks for huge pages everywhere, and has many arenas."""
    try:
        library = str(find_library.find_allocator("jemalloc").libraries[0])
    except UsageError as error:
        pytest.skip(str(error))
    host = thp.read_host()
    if not host or host["thp"] == "never":
        pytest.skip("this host has no huge pages")
    server = stock_server(*SMALL, LD_PRELOAD=library, MALLOC_CONF="thp:always,narenas:64")
    connections = [pymysql.connect(unix_socket=str(server[1])) for _ in range(64)]
    for connection in connections:
        connection.close()
    return server


def test_empty_huge_pages_are_avoided_by_what_the_malloc_knows(
    huge: Server, stock_server: StartServer
) -> None:
    verdict = judge(huge, "thp")
    assert verdict
    [remedy] = [text for text in verdict.remedies if "MALLOC_CONF" in text]
    assert remedy.startswith("thp:never in MALLOC_CONF, beside what it has")
    library = str(find_library.find_allocator("jemalloc").libraries[0])
    followed = stock_server(*SMALL, LD_PRELOAD=library, MALLOC_CONF="narenas:64,thp:never")
    assert judge(followed, "thp") is None


def test_a_malloc_whose_books_are_closed_is_asked_by_the_function(huge: Server) -> None:
    verdict = judge(huge, "own_books")
    assert verdict
    assert "jemalloc" in verdict.headline
    assert "--install-function; it costs" in verdict.remedies[0]


def work_in_turn(socket: Path, sessions: int) -> list[pymysql.connections.Connection]:
    """Sessions that need 15 MB each, one after the other, and give it back behind tables that stay
    open: every arena keeps its part.
    """
    connections = [
        pymysql.connect(unix_socket=str(socket), user="root", autocommit=True)
        for _ in range(sessions)
    ]
    names = [f"@v{n}" for n in range(250)]
    for number, connection in enumerate(connections):
        with connection.cursor() as cursor:
            cursor.execute("SET " + ", ".join(f"{name} = REPEAT('x', 60000)" for name in names))
            cursor.execute("CREATE DATABASE IF NOT EXISTS w")
            cursor.execute(f"CREATE TABLE w.t{number} (a INT)")
            cursor.execute(f"HANDLER w.t{number} OPEN")
            cursor.execute("SET " + ", ".join(f"{name} = NULL" for name in names))
    return connections


def find_held(pid: int) -> MemoryVerdict | None:
    reading = explanation.explain(Process.open(pid), LOGIN)
    return next((v for v in reading.verdicts if v.key == "fragmentation"), None)


def read_rss(pid: int) -> int:
    [line] = [
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in line
    ]
    return int(line.split()[1]) << 10


def test_trim_gives_back_what_is_said(
    run_cli: Cli, server_with_accounts: Callable[..., AccountServer]
) -> None:
    """Without a restart, to a tenth: the pages that the walk has counted are those that go."""
    server = server_with_accounts("--performance-schema=OFF")
    connections = work_in_turn(server.socket, 10)
    verdict = find_held(server.pid)
    assert verdict
    first = verdict.remedies[0]
    [size] = re.findall(r"--trim .* gives back about ([\d.]+) MiB at once", first)
    (run_cli.home / ".my.cnf").write_text("[client]\nuser=root\n")
    for action in ("--install-function", "--trim"):
        before = read_rss(server.pid)
        done = run_cli(
            "explain", "--pid", str(server.pid), action, "--yes", env={"HOME": str(run_cli.home)}
        )
        assert done.status == 0, done.stderr
    returned = (before - read_rss(server.pid)) / MIB
    assert returned == pytest.approx(float(size), rel=0.1)
    for connection in connections:
        connection.close()


def test_fewer_arenas_hold_less_where_that_is_advised(
    server_with_accounts: Callable[..., AccountServer],
) -> None:
    """And as much as is said, at least by half: an upper bound."""
    sizes = []
    for variables in ({}, {"MALLOC_ARENA_MAX": "2"}):
        server = server_with_accounts("--performance-schema=OFF", **variables)
        connections = work_in_turn(server.socket, 10)
        verdict = find_held(server.pid)
        advised = [r for r in verdict.remedies if "MALLOC_ARENA_MAX=2" in r] if verdict else []
        assert bool(advised) is not bool(variables)
        sizes.append((read_rss(server.pid), advised))
        for connection in connections:
            connection.close()
    (before, [advice]), (after, _) = sizes
    [most] = re.findall(r"up to ([\d.]+) MiB of it", advice)
    assert 0.5 * float(most) < (before - after) / MIB < 1.2 * float(most)
