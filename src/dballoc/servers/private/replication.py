"""A replica of a private server: the options and statements of each family, and how far it is."""

import re
import secrets
from dataclasses import dataclass
from typing import Any

from dballoc.ground.errors import UsageError
from dballoc.servers.build import Build
from dballoc.servers.private.admin_connection import Admin

# The file with MySQL's identity of a data directory: two servers with the same one refuse to
# replicate. A server makes a new one at its start.
IDENTITY = "auto.cnf"
# The threads with which a replica applies unless somebody says otherwise.
WORKERS = 4

_MARIADB_GTID = re.compile(r"\d+-\d+-(\d+)")
# MySQL's "uuid:first-last" and "uuid:tag:number"; several intervals follow one uuid.
_INTERVAL = re.compile(r":(\d+)(?:-(\d+))?(?=[:,\s]|$)")


@dataclass(frozen=True)
class Account:
    """How a replica logs in to its primary, on the loopback: a replica cannot name a socket."""

    host: str
    port: int
    user: str
    password: str


def make_account(port: int) -> Account:
    """Return an account for the primary that listens on a port. MySQL takes 32 characters of a
    password at most; the first four are for rules that a data directory may bring.
    """
    return Account("127.0.0.1", port, "dballoc_replica", f"Aa1-{secrets.token_hex(14)}")


@dataclass(frozen=True)
class ReplicaState:
    """``error``: the server's own message of what stopped its replication; empty while it runs or
    has not begun.
    """

    connected: bool
    applying: bool
    error: str


def check_replication(build: Build, where: str) -> None:
    """Raises UsageError if dballoc cannot make a replica of this build."""
    if not build.entry.replication:
        raise UsageError(
            f"{where}: {build.title} cannot be a replica here: it needs GTIDs that a replica "
            "without a binary log of its own keeps (MariaDB 10.2, MySQL 5.7 or later)"
        )


def make_replica_options(
    build: Build, options: dict[str, str], workers: int | None
) -> dict[str, str]:
    """Return a server's ``options`` with those that make it a replica: its number of applying
    threads is ``workers``, else what ``options`` say, else a few.
    """
    words = build.entry.replication
    usual = {words["workers"]: str(WORKERS)}
    configured = {} if workers is None else {words["workers"]: str(workers)}
    return {**usual, **options, **configured, **words["replica"]}


def make_primary_options(build: Build, options: dict[str, str]) -> dict[str, str]:
    """Return the options of the primary of a replica that is started with ``options``."""
    words = build.entry.replication
    of_replica = {*words["replica"], words["workers"]}
    return {k: v for k, v in options.items() if k not in of_replica} | words["primary"]


def begin_binary_log(build: Build, primary: Admin, account: Account) -> None:
    """Make the replica's account on the primary, and have it forget what was written before. Raises
    pymysql.Error as it comes.
    """
    for sql in build.entry.replication["begin"]:
        primary.rows(sql.format(**vars(account)))


def follow_primary(build: Build, replica: Admin, account: Account) -> None:
    """Have the server replicate from the beginning of its primary's binary log. Raises
    pymysql.Error as it comes.
    """
    for sql in build.entry.replication["follow"]:
        replica.rows(sql.format(**vars(account)))


def count_committed(build: Build, primary: Admin) -> int:
    """Return how many transactions are in the primary's binary log."""
    return count_gtids(primary.rows(build.entry.replication["committed"])[0][0])


def count_applied(build: Build, replica: Admin) -> int:
    """Return how many of its primary's transactions a replica has applied."""
    return count_gtids(replica.rows(build.entry.replication["applied"])[0][0])


def read_state(build: Build, replica: Admin) -> ReplicaState:
    """Ask a replica how its replication stands. Raises pymysql.Error as it comes."""
    return parse_state(replica.first_row(build.entry.replication["state"]))


def parse_state(row: dict[str, Any]) -> ReplicaState:
    """Return the state that a row of SHOW SLAVE STATUS or SHOW REPLICA STATUS tells."""
    row = {name.replace("Replica_", "Slave_"): value for name, value in row.items()}
    errors = [
        f"{row[f'Last_{part}_Error']} (error {row[f'Last_{part}_Errno']})"
        for part in ("SQL", "IO")
        if row.get(f"Last_{part}_Errno")
    ]
    return ReplicaState(
        connected=row.get("Slave_IO_Running") == "Yes",
        applying=row.get("Slave_SQL_Running") == "Yes",
        error="; ".join(errors),
    )


def count_gtids(text: str | None) -> int:
    """Return the transactions of a GTID position: of MariaDB's the sequence numbers, which a
    primary gives without gaps from 1; of MySQL's set the lengths of its intervals.
    """
    if not text:
        return 0
    if ":" not in text:
        return sum(int(number) for number in _MARIADB_GTID.findall(text))
    return sum(int(last or first) - int(first) + 1 for first, last in _INTERVAL.findall(text))
