"""Connect to a running server that may be hostile: to exactly that process, with bounds, and
without a password that it should not get.

Anybody who calls a program ``mysqld`` can listen on a socket and ask clients for their passwords.
Ours goes to a process only if our own client settings mean that process, if it is a unit of the
host's own, or if it runs as the user who read the password (:func:`may_have_password`).
"""

import contextlib
import re
import socket
import struct
import time

import pymysql
from pymysql.cursors import Cursor
from pymysql.protocol import FieldDescriptorPacket, MysqlPacket

from dballoc import readers
from dballoc.catalogue import servers
from dballoc.servers.running.bounded_socket import BoundedSocket
from dballoc.servers.running.credentials import Credentials
from dballoc.servers.running.sql_values import DECODERS, describe_refusal

# Where clients look by default. /tmp/mysql.sock is not listed, because anybody can make it.
USUAL_SOCKETS = (
    "/run/mysqld/mysqld.sock",
    "/var/run/mysqld/mysqld.sock",
    "/var/lib/mysql/mysql.sock",
)

# The most time that a server may take, and the most columns that it may send, for one connection.
_SECONDS = 120.0
_MOST_COLUMNS = 10_000
_CONNECT_SECONDS = 10.0
_READ_SECONDS = 30

_ACCESS_DENIED = (1045, 1698)
# The cgroup of a process that systemd started: /system.slice/NAME.service, maybe with a group of
# the service's own below it.
_UNIT = re.compile(r"/system\.slice/(?:system-[\w\\.-]+\.slice/)?([\w\\.@-]+)\.service(?:/|$)")

# What the client library raises for a wrong answer.
BROKEN = (
    struct.error,
    LookupError,
    AssertionError,
    AttributeError,
    NameError,
    RuntimeError,
    ValueError,
    TypeError,
    ArithmeticError,
    EOFError,
)


class NoConnection(Exception):
    """The server cannot be queried; the text is a short reason."""


class _Connection(pymysql.Connection):
    """A connection with a limit on the columns of all its answers: each takes fifty times the
    memory that it takes to send.
    """

    columns = 0

    def _read_packet(self, packet_type: type[MysqlPacket] = MysqlPacket) -> MysqlPacket:
        if packet_type is FieldDescriptorPacket:
            self.columns += 1
            if self.columns > _MOST_COLUMNS:
                raise ValueError(f"more than {_MOST_COLUMNS} columns")
        packet: MysqlPacket = super()._read_packet(packet_type)  # type: ignore[no-untyped-call]
        return packet


def connect(
    pid: int, path: str, credentials: Credentials, trusted: bool
) -> "pymysql.Connection[Cursor]":
    """Connect to the process behind a socket. NoConnection unless it is ``pid``. ``trusted``: it
    may get our password; otherwise dballoc connects without one.
    """
    talk = BoundedSocket(socket.AF_UNIX)
    try:
        talk.deadline = time.monotonic() + _SECONDS
        talk.settimeout(_CONNECT_SECONDS)
        talk.connect(path)
        if (answers := peer(talk)) != pid:
            raise NoConnection(f"its socket is answered by process {answers}")
        connection = _Connection(
            unix_socket=path,
            user=credentials.user,
            password=(credentials.password or "") if trusted else "",
            read_timeout=_READ_SECONDS,
            defer_connect=True,
            # TLS would take the socket's descriptor, and leave the bounds behind.
            ssl_disabled=True,
            conv=DECODERS,
        )
        # As PyMySQL has it for a socket that it opens itself: the password may go over it.
        connection._secure = True  # type: ignore[attr-defined]
        connection.connect(sock=talk)
        return connection
    except pymysql.Error as error:
        _hang_up(talk)
        reason = describe_refusal(error)
        if credentials.password and not trusted and error.args[0] in _ACCESS_DENIED:
            reason += (
                f"; your password was not sent, because nothing shows that process {pid} is your "
                "server: name its socket in "
                "your client settings (socket = … in ~/.my.cnf, or MYSQL_UNIX_PORT)"
            )
        raise NoConnection(reason) from None
    except OSError as error:
        _hang_up(talk)
        raise NoConnection(error.strerror or str(error)) from None
    except BROKEN:
        _hang_up(talk)
        raise NoConnection("what it answers is not MySQL's protocol") from None
    except NoConnection:
        _hang_up(talk)
        raise


def _hang_up(talk: socket.socket) -> None:
    # PyMySQL's file of the socket keeps a closed one open until it is collected.
    with contextlib.suppress(OSError):
        talk.shutdown(socket.SHUT_RDWR)
    talk.close()


def peer(talk: socket.socket) -> int:
    """Return the process that listens at the other end of a connected socket (unix(7),
    SO_PEERCRED).
    """
    pid: int = struct.unpack("iII", talk.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    return pid


def may_have_password(pid: int, uid: int, elsewhere: bool, credentials: Credentials) -> bool:
    """Whether our password may go to a process: it could read it anyway, or it is a unit of the
    host's that is named as servers are, or it listens where our client settings (or clients without
    settings) connect. ``uid``: its user; ``elsewhere``: it sees other files than we do, so it
    cannot read ours.
    """
    if uid == credentials.reader and not elsewhere:
        return True
    if not elsewhere and is_unit(_read_cgroups(pid)):
        return True
    sockets = [credentials.socket] if credentials.socket else USUAL_SOCKETS
    return any(_listener(path) == pid for path in sockets)


def is_unit(cgroups: str) -> bool:
    """Whether a text of /proc/PID/cgroup is that of a systemd unit named as a server, or an
    instance of one. Pure.
    """
    names = {name for entry in servers().values() for name in entry["units"]}
    # A group's own name may have colons and strange line ends in it; whoever is given a group to
    # divide (a user's systemd) chooses the names in it.
    units = {
        match[1].partition("@")[0]
        for line in readers.rows(cgroups)
        if (match := _UNIT.match(line.split(":", 2)[-1]))
    }
    return bool(units & names)


def _read_cgroups(pid: int) -> str:
    try:
        return readers.text_of_process(f"/proc/{pid}/cgroup", 1 << 16)
    except OSError:
        return ""


def _listener(path: str) -> int:
    """Return the process that listens on a socket of ours; 0 if none does."""
    with socket.socket(socket.AF_UNIX) as talk:
        talk.settimeout(_CONNECT_SECONDS)
        try:
            talk.connect(path)
            return peer(talk)
        except (OSError, ValueError):
            return 0
