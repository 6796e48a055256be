"""How much of real servers' memory `dballoc explain` accounts for, beside what else is said of the
same server.

    python benchmarks/ledger_matrix.py [--servers mariadb,mariadb@11.8:rocksdb,…] [--allocators
    glibc,jemalloc,…]
                                       [--seconds 60] [--clients 16] [--rows 20000] [--cache 128M]
                                       [--instruments on|default|both] [--json FILE]

Each cell is one start of a server under one malloc on a copy of the same data: looked at idle, and
again after so many seconds of oltp_read_write. Columns, in MiB but for the shares of RSS:

rest, unowned      pages that no class claims; memory that no owner claims, live heap without a
label included with the function  unowned, once another malloc than glibc's has told its own books,
by our loadable function P_S total          the sum of performance_schema's memory instruments:
requested, the buffer pool as allocated Memory_used        MariaDB's own count MySQLTuner
its "maximum reached": server buffers, performance_schema, buffers of a connection ×
Max_used_connections configuration      the same for max_connections, with one of each buffer
(dballoc's "each with one of these")

A server that is not here, or does not run under a malloc, is a line that says why. The exit status
is 1 if a cell misses the targets: rest at most 1 %, unowned at most 5 % with all instruments on.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pymysql

from dballoc.campaign.observer import Observer
from dballoc.campaign.preparation import data_templates, prepare
from dballoc.campaign.trial.data_copies import DataCopies
from dballoc.campaign.trial.fault import Fault
from dballoc.campaign.trial.server_in_trial import ServerLife, TrialContext
from dballoc.evidence.sql import loadable_function
from dballoc.experiment import experiment_file
from dballoc.explain import explanation
from dballoc.ground.errors import Failure, UsageError
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.process.handle import Process
from dballoc.load import client
from dballoc.servers.private.admin_connection import USER
from dballoc.servers.running.credentials import Credentials

SERVERS = "mariadb,mariadb@11.8,mariadb@10.11:rocksdb,mariadb@11.8:rocksdb,mysql@9.7,mysql@8.0.33"
ALLOCATORS = "glibc,jemalloc,tcmalloc,mimalloc"
CACHES = {"innodb": "innodb_buffer_pool_size", "rocksdb": "rocksdb_block_cache_size"}
ON = {"performance_schema": "ON", "performance_schema_instrument": "memory/%=ON"}
TOTAL = (
    "SELECT SUM(CURRENT_NUMBER_OF_BYTES_USED) FROM "
    "performance_schema.memory_summary_global_by_event_name"
)
MOST_REST, MOST_UNOWNED = 0.01, 0.05
MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One look. Bytes; ``booked``: what is unowned where malloc tells its books, None where it is
    not asked; ``schema`` and ``memory_used``: None where the server does not count them.
    """

    server: str
    allocator: str
    instruments: str
    when: str
    rss: int
    rest: int
    unowned: int
    booked: int | None
    schema: int | None
    memory_used: int | None
    tuner: int
    configuration: int
    milliseconds: float
    lines: list[dict[str, Any]]

    @property
    def misses(self) -> bool:
        """Whether it is beyond the targets."""
        unowned = self.instruments == "on" and self.unowned > MOST_UNOWNED * self.rss
        return abs(self.rest) > MOST_REST * self.rss or unowned


def experiment(server: str, allocator: str, given: argparse.Namespace, on: bool) -> Any:
    """One variant, on data that fill the cache in part."""
    name, _, engine = server.partition(":")
    engine = engine or "innodb"
    table = {
        "name": "ledger",
        "design": "solo",
        "baseline": "it",
        "workloads": ["oltp_read_write"],
        "threads": [given.clients],
        "server": {
            "use": name,
            "engine": engine,
            "options": {CACHES[engine]: given.cache, **(ON if on else {})},
        },
        "data": {"tables": 4, "rows": given.rows},
        "variant": [{"name": "it", "allocator": allocator}],
    }
    return experiment_file.build_experiment(table, "ledger")


def cells(
    server: str, allocator: str, given: argparse.Namespace, on: bool, custody: Custody
) -> Iterator[Cell]:
    """Both looks at one start."""
    setting = prepare.prepare_campaign(experiment(server, allocator, given, on))
    directory = directories.make_run_directory(custody.scratch)
    context = TrialContext(
        setting=setting,
        custody=custody,
        copies=DataCopies(custody, setting.user, again=False, most=1),
        observer=Observer(),
        stopping=lambda: False,
    )
    try:
        template = next(
            iter(
                data_templates.prepare_data_templates(
                    setting, custody, Observer(), directory / "template.log"
                ).values()
            )
        )
        life = ServerLife(context, "it", template, directory)
        try:
            life.start()
            life.wait_until_ready()
            yield look(life, server, allocator, on, "idle")
            load(life, given)
            yield look(life, server, allocator, on, "after load")
            life.shut_down()
        finally:
            life.clean_up()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def load(life: ServerLife, given: argparse.Namespace) -> None:
    """Sysbench against it. Failure in its words."""
    setting, prepared = life.context.setting, life.prepared
    job = client.ClientJob(
        workload="oltp_read_write",
        threads=given.clients,
        seconds=given.seconds,
        data=setting.experiment.data,
        engine=prepared.server.engine,
        load=setting.experiment.load,
    )
    running = client.start(
        custody=life.context.custody,
        user=setting.user,
        bench=setting.sysbench,
        job=job,
        places=life.write_client_files(),
        raw=life.directory,
        name="load",
        cpus=prepared.client_cpus,
    )
    ended = running.wait(given.seconds + 60)
    if ended is None:
        running.kill()
        raise Failure("sysbench does not end")
    for _ in running.reports():
        pass
    running.result(ended)


def look(life: ServerLife, server: str, allocator: str, on: bool, when: str) -> Cell:
    """The ledger of this moment, and what else is said."""
    admin = life.running.admin
    who = Credentials(user=USER, password=life.password, socket=str(life.address.socket))
    found = explanation.explain(life.running.process, who)
    if "SQL" not in found.ledger.tiers or found.bounds is None:
        raise Failure("; ".join(found.ledger.notes))
    variables = {k.lower(): v for k, v in admin.variables().items()}
    status = {k.lower(): v for k, v in admin.status().items()}
    used = status.get("memory_used", "")
    schema = total_of_instruments(admin)
    books = found.ledger
    return Cell(
        server=server,
        allocator=allocator,
        instruments="on" if on else "default",
        when=when,
        rss=books.rss,
        rest=books.rest,
        unowned=books.unowned,
        booked=None
        if life.prepared.allocator.name == "glibc"
        else booked(life.running.process, who),
        schema=schema,
        memory_used=int(used) if used.isdigit() else None,
        tuner=tuner(variables, status, own_memory(admin)),
        configuration=found.bounds.worst,
        milliseconds=found.seconds * 1e3,
        lines=[asdict(line) for line in books.lines],
    )


def booked(process: Process, who: Credentials) -> int:
    """What stays unowned where the loadable function is there, for as long as this takes."""
    loadable_function.install_function(process, who)
    try:
        return explanation.explain(process, who).ledger.unowned
    finally:
        loadable_function.remove_function(process, who)


def total_of_instruments(admin: Any) -> int | None:
    """Bytes that all memory instruments count together; None where there are none that do."""
    try:
        [(total,)] = admin.rows(TOTAL)
    except pymysql.Error:
        return None
    return int(total) if total else None


def own_memory(admin: Any) -> int:
    """Bytes of performance_schema's own tables."""
    rows = admin.rows("SHOW ENGINE PERFORMANCE_SCHEMA STATUS")
    return next((int(value) for _, name, value in rows if name == "performance_schema.memory"), 0)


def tuner(variables: dict[str, str], status: dict[str, str], schema: int) -> int:
    """MySQLTuner's "maximum reached", as newer releases have it: a packet and a temporary table for
    each connection.
    """

    def number(name: str, where: dict[str, str] = variables) -> int:
        return int(value) if (value := where.get(name, "")).isdigit() else 0

    connection = sum(
        map(
            number,
            (
                "read_buffer_size",
                "read_rnd_buffer_size",
                "sort_buffer_size",
                "thread_stack",
                "max_allowed_packet",
                "join_buffer_size",
            ),
        )
    )
    server = sum(map(number, (
        "key_buffer_size", "innodb_buffer_pool_size", "innodb_log_buffer_size", "query_cache_size",
        "aria_pagecache_buffer_size",
    )))  # fmt: skip
    connection += min(number("tmp_table_size"), number("max_heap_table_size"))
    return server + schema + connection * number("max_used_connections", status)


COLUMNS = (
    "server",
    "malloc",
    "instruments",
    "when",
    "RSS",
    "rest",
    "unowned",
    "with the function",
    "P_S total",
    "Memory_used",
    "MySQLTuner",
    "configuration",
    "looked at, ms",
)
HEAD = f"| {' | '.join(COLUMNS)} |\n|{' --- |' * 4}{' --: |' * (len(COLUMNS) - 4)}"


def row(cell: Cell) -> str:
    """A line of the table."""

    def mib(size: int | None) -> str:
        return "" if size is None else f"{size / MIB:,.1f}"

    told = "" if cell.booked is None else f"{cell.booked / cell.rss:.1%}"
    shares = (
        f"{cell.rest / cell.rss:.2%} | "
        f"{cell.unowned / cell.rss:.1%}{' **misses**' if cell.misses else ''} | {told}"
    )
    said = " | ".join(map(mib, (cell.schema, cell.memory_used, cell.tuner, cell.configuration)))
    who = f"{cell.server} | {cell.allocator} | {cell.instruments} | {cell.when}"
    return f"| {who} | {mib(cell.rss)} | {shares} | {said} | {cell.milliseconds:.0f} |"


def main() -> int:
    """Run and print, cell by cell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--servers", default=SERVERS)
    parser.add_argument("--allocators", default=ALLOCATORS)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--cache", default="128M", help="the buffer pool, or RocksDB's block cache")
    parser.add_argument("--instruments", choices=("on", "default", "both"), default="both")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: list[Cell] = []
    print(HEAD, flush=True)
    with Custody() as custody:
        for server in given.servers.split(","):
            for allocator in given.allocators.split(","):
                for on in {"on": (True,), "default": (False,), "both": (True, False)}[
                    given.instruments
                ]:
                    try:
                        for cell in cells(server, allocator, given, on, custody):
                            found.append(cell)
                            print(row(cell), flush=True)
                    except (UsageError, Failure, Fault, client.ClientFailed) as error:
                        print(
                            f"| {server} | {allocator} | {'on' if on else 'default'} | {error} |",
                            flush=True,
                        )
    if given.json:
        given.json.write_text(json.dumps([asdict(cell) for cell in found], indent=1))
    return 1 if not found or any(cell.misses for cell in found) else 0


if __name__ == "__main__":
    sys.exit(main())
