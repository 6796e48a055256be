"""Cases of owners with most of RSS: what has it, by name, and what bounds it."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

from report_cases.case import Case, Judgement, judge_absence, judge_bytes, judge_words
from report_cases.private_server import PrivateServer, Workshop
from report_cases.resident import DOUBLEWRITE, MIB, find_line, find_verdict

_COUNTED = ("--performance-schema=ON", "--performance-schema-instrument=memory/%=ON")
PROGRAMS = "memory/sql/sp_head::main_mem_root"


def count_bytes(server: PrivateServer, event: str) -> int:
    """Return what an instrument counts."""
    [(size,)] = server.query(
        "SELECT CURRENT_NUMBER_OF_BYTES_USED FROM "  # noqa: S608
        f"performance_schema.memory_summary_global_by_event_name WHERE EVENT_NAME = '{event}'"
    )
    return int(size)


def open_tables_with_triggers(workshop: Workshop) -> Iterator[Judgement]:
    """Each open table has a copy of its triggers."""
    options = ("--table-open-cache=2000", "--table-open-cache-instances=1")
    with workshop.start("mysql@9.7", *options) as server:
        idle = server.explain()
        server.query(
            "CREATE DATABASE a",
            "CREATE TABLE a.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50))",
        )
        body = " ".join(
            f"IF NEW.v = 'zz{n}' THEN SET @x{n} = CONCAT(NEW.v, '{'y' * 20}', @x{n}); END IF;"
            for n in range(400)
        )
        for number in range(2):
            server.query(
                f"CREATE TRIGGER a.g{number} BEFORE INSERT ON a.t FOR EACH ROW BEGIN {body} END"
            )
        insert = "INSERT INTO a.t (v) SELECT 'b' FROM (SELECT SLEEP(6)) x"
        threads = [threading.Thread(target=server.query, args=(insert,)) for _ in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        document, size = server.explain(), count_bytes(server, PROGRAMS)
        parts = dict(map(tuple, find_line(document, "memory/sql")["parts"]))
        yield judge_bytes(PROGRAMS, parts.get(PROGRAMS), size, 0.02)
        said = find_verdict(document, "owner")
        yield judge_words("cause", said, r"sp_head::main_mem_root.*table_open_cache \(now 2,000\)")
        yield judge_words("answer", document["answer"], "sp_head::main_mem_root")
        before = find_line(idle, DOUBLEWRITE)["resident"]
        yield judge_bytes(
            "doublewrite, unchanged", find_line(document, DOUBLEWRITE)["resident"], before, 0.02
        )


def fill_memory_table(workshop: Workshop) -> Iterator[Judgement]:
    """A table of the engine MEMORY, with and without instruments."""
    for options in (_COUNTED, ()):
        with workshop.start("mariadb", "--max-heap-table-size=1G", *options) as server:
            server.query(
                "CREATE DATABASE a",
                "CREATE TABLE a.m (id INT PRIMARY KEY, v CHAR(200)) ENGINE=MEMORY CHARSET latin1",
                "INSERT INTO a.m SELECT seq, 'x' FROM a.seq_1_to_600000",
            )
            document = server.explain()
            said = find_verdict(document, "owner", "unowned", "suspects")
            if options:
                temporary = find_line(document, "temporary tables")["resident"]
                yield judge_bytes(
                    "MEMORY tables",
                    find_line(document, "MEMORY tables")["resident"],
                    134 * MIB,
                    0.1,
                )
                yield judge_words("by information_schema", said, "150,994,816 bytes")
                yield judge_words("temporary tables", f"{temporary < MIB}", "True")
            else:
                yield judge_words("suspect", said, "MEMORY tables")


def open_partitions(workshop: Workshop) -> Iterator[Judgement]:
    """Open tables with many partitions, and performance_schema off."""
    options = (
        "--table-open-cache=4000",
        "--table-definition-cache=4000",
        "--innodb-file-per-table=0",
    )
    with workshop.start("mariadb", *options) as server:
        columns = "id INT, a INT, b VARCHAR(50), c VARCHAR(50), KEY (a), KEY (b)"
        server.query(
            "CREATE DATABASE a",
            *(
                f"CREATE TABLE a.p{n} ({columns}) PARTITION BY HASH (id) PARTITIONS 60"
                for n in range(12)
            ),
        )
        with ExitStack() as stack:
            for number in range(12):
                connection = stack.enter_context(server.connect())
                with connection.cursor() as cursor:
                    for table in range(12):
                        cursor.execute(f"HANDLER a.p{table} OPEN AS h{number}_{table}")
            said = find_verdict(server.explain(), "owner", "unowned", "suspects")
        yield judge_words("suspect", said, "(?i)open tables|table_open_cache")


def call_programs(workshop: Workshop) -> Iterator[Judgement]:
    """Each connection has a copy of each stored program that it has called."""
    with workshop.start("mariadb", "--stored-program-cache=4096", *_COUNTED) as server:
        body = " ".join(f"IF x = {n} THEN SET x = x + {n}; END IF;" for n in range(60))
        server.query(
            "CREATE DATABASE a",
            *(f"CREATE PROCEDURE a.p{n}() BEGIN DECLARE x INT; {body} END" for n in range(60)),
        )
        with ExitStack() as stack:
            for _ in range(6):
                connection = stack.enter_context(server.connect())
                with connection.cursor() as cursor:
                    for number in range(60):
                        cursor.execute(f"CALL a.p{number}()")
            document, size = server.explain(), count_bytes(server, PROGRAMS)
        line, said = find_line(document, "sessions"), find_verdict(document, "sessions")
        share = f"{round(100 * line['resident'] / document['rss'])} % of RSS"
        parts = dict(map(tuple, line["parts"]))
        users = sum(bytes_ for name, bytes_ in parts.items() if name.startswith("user "))
        yield judge_words("verdict", said, r"sp_head::main_mem_root.*stored_program_cache")
        yield judge_words("one share", said, share)
        yield judge_bytes(PROGRAMS, parts.get(PROGRAMS), size, 0.02)
        yield judge_bytes("users' sum", users, line["size"], 0.02)


def send_large_packets(workshop: Workshop) -> Iterator[Judgement]:
    """Each connection keeps a network buffer of its largest packet."""
    with workshop.start("mariadb", "--max-allowed-packet=64M") as server, ExitStack() as stack:
        for _ in range(15):
            connection = stack.enter_context(server.connect(max_allowed_packet=64 << 20))
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT LENGTH('{'x' * 14_000_000}')")
        time.sleep(1)
        document = server.explain()
        suspected = find_verdict(document, "unowned", "suspects")
        said = find_verdict(document, "sessions", "owner")
        yield judge_words("suspect", suspected, "network buffers of sessions.*max_allowed_packet")
        yield judge_absence("advice", said, r"reset or renew its connections \(COM_RESET")


CASES = [
    Case(name="04", report="MySQL bug 86821", run=open_tables_with_triggers),
    Case(name="05", report="MySQL bug 8930", run=fill_memory_table),
    Case(name="25", report="netdata's guide", run=open_partitions),
    Case(name="37", report="MySQL bug 44585", run=call_programs),
    Case(name="40", report="Percona's documentation", run=send_large_packets),
]
