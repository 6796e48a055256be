"""How far the clock of the server's host is from that of the client's, asked over the way that the
load takes: from the server itself, by SQL.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql

from dballoc.servers.private.certificate_files import AUTHORITY, CLIENT, CLIENT_KEY
from dballoc.servers.private.command_line import Address

# A statement takes a tenth of a millisecond in a rack; the fastest of a few met no queue.
_ASKED = 8
_TO_CONNECT, _TO_ANSWER = 10, 10


@dataclass(frozen=True)
class ClockReading:
    """The Unix time of another host, asked between two moments of a clock here; seconds."""

    before: float
    server: float
    after: float

    @property
    def round_trip(self) -> float:
        """Seconds from the question to the answer."""
        return self.after - self.before

    @property
    def ahead(self) -> float:
        """Seconds by which that Unix time is ahead of the clock here, if question and answer
        took equally long; it is wrong by half the round trip at most.
        """
        return self.server - (self.before + self.after) / 2


def choose_reading(readings: Sequence[ClockReading]) -> ClockReading:
    """Return the reading with the shortest round trip, whose error is smallest. Pure."""
    return min(readings, key=lambda reading: reading.round_trip)


def ask_server_clock(
    address: Address, user: str, password: str, clock: Callable[[], float] = time.monotonic
) -> ClockReading:
    """Ask a server for its time, over TLS if the address has certificates for it. Raises
    pymysql.Error if it cannot be reached, or answers nonsense.
    """
    connection = pymysql.connect(
        host=address.host,
        port=address.port or 0,
        user=user,
        password=password,
        **_list_tls_files(address.certificates),
        connect_timeout=_TO_CONNECT,
        read_timeout=_TO_ANSWER,
        write_timeout=_TO_ANSWER,
        autocommit=True,
    )
    try:
        with connection.cursor() as cursor:
            # Without summer time, in which an hour comes twice.
            cursor.execute("SET time_zone = '+00:00'")
            return choose_reading([_ask_once(cursor, clock) for _ in range(_ASKED)])
    finally:
        connection.close()


def _list_tls_files(directory: Path | None) -> dict[str, Any]:
    """Return PyMySQL's arguments for the certificates in a directory. Without any, its newer
    versions encrypt if the server can, and its older ones do not.
    """
    if directory is None:
        return {}
    names = {"ssl_ca": AUTHORITY, "ssl_cert": CLIENT, "ssl_key": CLIENT_KEY}
    return {argument: str(directory / name) for argument, name in names.items()}


def _ask_once(cursor: "pymysql.cursors.Cursor", clock: Callable[[], float]) -> ClockReading:
    before = clock()
    # SYSDATE, unlike NOW, is read when the server gets there.
    cursor.execute("SELECT UNIX_TIMESTAMP(SYSDATE(6))")
    row = cursor.fetchone()
    after = clock()
    try:
        server = float(row[0])  # type: ignore[index]
    except (TypeError, ValueError, IndexError):
        raise pymysql.err.DataError(0, "the server does not tell its time") from None
    return ClockReading(before, server, after)
