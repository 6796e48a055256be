"""What a results directory says of its hosts: combined with another's, or refused."""

import sqlite3
import tempfile
from pathlib import Path

from dballoc.document import chart_files
from dballoc.ground.errors import Failure, UsageError
from dballoc.questions.compare.campaign_tables import load_unimported_campaign
from dballoc.questions.compare.split_by_host import split_by_host
from dballoc.questions.hosts.answer import describe_verdicts, gather_hosts_report
from dballoc.questions.hosts.figures import judge_over_hosts
from dballoc.questions.hosts.host_pool import pool_hosts
from dballoc.questions.hosts.redact_hosts import redact_pool
from dballoc.store.open_database import FILE
from targets.results_database import make_results

OF = (
    "dballoc.store.facts",
    "dballoc.questions.compare.results_consistency",
    "dballoc.questions.compare.split_by_host",
    "dballoc.questions.hosts.host_pool",
    "dballoc.questions.hosts.host_pool",
    "dballoc.questions.hosts.host_pool",
    "dballoc.questions.hosts.figures",
    "dballoc.questions.statistics.mean_over_hosts",
    "dballoc.questions.hosts.answer",
    "dballoc.questions.hosts.redact_hosts",
)
PRIVILEGED = False


def seeds() -> list[bytes]:
    """Return lines: the fact environment; for each of two hosts its name, its kernel and its
    environment; the variants' allocator and its version, the server, libraries and environment; the
    fact duet.
    """
    duet = '{"halves": ["0", "1"], "threads": 4, "left_out": {}, "estimate": "middle"}'
    plan = duet[:-1] + (
        ', "plan": {"slice": 2, "discard": 0.5, "pairs": 2, "blocks": 6, "block_seconds": 20, '
        '"half_width": 0.01, "confidence": 0.99}}'
    )
    return [
        "\n".join(lines).encode()
        for lines in (
            ('{"host": "db1", "cpu": "a CPU", "cpus": 2, "boot_id": "b"}', "", "", "", "", "", ""),
            (
                "{}",
                *("db1 (10.0.0.1)", "k1", '{"host": "db1", "memory": 17179869184}'),
                *("db2 (10.0.0.2)", "k2", '{"host": null, "os": "Debian"}'),
                *(
                    "",
                    "5.3",
                    "MariaDB 10.11.9",
                    '["/home/jane/lib.so"]',
                    "",
                    plan,
                ),
            ),
            ('{"host": null}', "a", "k", "{}", "b", "k", "{}", "x", "", "mine", "[]", "{}", duet),
        )
    ]


def fuzz(data: bytes) -> None:
    lines = [*data.decode("utf-8", "replace").split("\n"), *[""] * 13][:13]
    with tempfile.TemporaryDirectory() as home:
        usual, changed = Path(home) / "usual", Path(home) / "changed"
        for place in (usual, changed):
            place.mkdir()
            (place / FILE).write_bytes(make_results())
        try:
            _change_results(changed / FILE, lines)
        except (sqlite3.IntegrityError, sqlite3.DataError, OverflowError, UnicodeEncodeError):
            return  # what the database itself does not take
        try:
            _combine(usual, changed)
            _combine(changed, usual)
        except (UsageError, Failure) as error:
            assert "\n" not in str(error), error


def _combine(*directories: Path) -> None:
    parts = [(d, part) for d in directories for part in split_by_host(load_unimported_campaign(d))]
    places, campaigns = [d for d, _ in parts], [part for _, part in parts]
    if len(parts) < 2:
        return
    for each_is_a_host in (False, True):
        pool = pool_hosts(places, campaigns, each_is_a_host=each_is_a_host)
        assert len({host.name for host in pool.hosts}) == len(pool.hosts)
        for shown in (pool, redact_pool(pool)):
            figures = judge_over_hosts(shown)
            assert describe_verdicts(shown, figures)["headline"]
            for figure in gather_hosts_report(shown, figures).figures:
                chart_files.make_drawable(figure.chart)


def _change_results(path: Path, lines: list[str]) -> None:
    environment, *hosts, allocator, version, server, libraries, variables, duet = lines
    database = sqlite3.connect(path)
    try:
        with database:
            facts = {"environment": environment, "duet": duet, "started": "5"}
            database.executemany(
                "UPDATE campaign SET value = ? WHERE key = ?",
                [(value, key) for key, value in facts.items() if value],
            )
            for number in (0, 1):
                name, kernel, described = hosts[3 * number : 3 * number + 3]
                if name:
                    database.execute("INSERT INTO host VALUES (?, ?, ?)", (name, kernel, described))
                    database.execute(
                        "INSERT INTO placement (design, block, attempt, host) "
                        "SELECT DISTINCT design, block, attempt, ? FROM trial WHERE block = ?",
                        (name, number + 1),
                    )
            columns = {
                "allocator": allocator,
                "allocator_version": version,
                "server": server,
                "libraries": libraries,
                "environment": variables,
            }
            for column, value in columns.items():
                if value:
                    database.execute(f"UPDATE variant SET {column} = ?", (value,))
    finally:
        database.close()
