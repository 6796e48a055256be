"""Connect to a running server that may be hostile: to exactly that process, with bounds, and
without a password that it should not get.

Anybody who calls a program ``mysqld`` can listen on a socket and ask clients for their passwords.
What of ours a process may get, :mod:`password_trust` decides.
"""

import contextlib
import errno
import select
import socket
import struct
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pymysql
from pymysql.cursors import Cursor
from pymysql.protocol import FieldDescriptorPacket, MysqlPacket

from dballoc.ground import readers
from dballoc.ground.errors import Failure
from dballoc.host.abandonable import touches
from dballoc.host.abandonable.abandonable_work import run_abandonable
from dballoc.host.process import open_in_process_root
from dballoc.host.process.handle import STATE, Process, read_peer
from dballoc.servers.running.credentials import Credentials
from dballoc.servers.running.password_trust import Decision, Trust, decide_trust, read_standing
from dballoc.servers.running.sql_values import DECODERS, describe_refusal

_MOST_BYTES = 16 << 20


class BoundedSocket(socket.socket):
    """A socket with a limit on bytes and time. Raises OSError beyond either."""

    most_bytes = _MOST_BYTES
    deadline = float("inf")

    def recv_into(self, *arguments: Any, **named: Any) -> int:
        """Receive as a socket does; a file made of the socket reads through this."""
        self._shorten_timeout()
        count = super().recv_into(*arguments, **named)
        self.most_bytes -= count
        if self.most_bytes < 0:
            raise OSError(errno.EMSGSIZE, f"it answers with more than {_MOST_BYTES >> 20} MiB")
        return count

    def sendall(self, *arguments: Any) -> None:
        """Send as a socket does; a server that asks and does not read what it is sent fills the
        socket's buffer.
        """
        self._shorten_timeout()
        super().sendall(*arguments)

    def _shorten_timeout(self) -> None:
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError(errno.ETIMEDOUT, "it takes too long to answer")
        timeout = self.gettimeout()
        if timeout is None or timeout > remaining:
            self.settimeout(remaining)


# Where clients look by default. /tmp/mysql.sock is not listed, because anybody can make it.
USUAL_SOCKETS = (
    "/run/mysqld/mysqld.sock",
    "/var/run/mysqld/mysqld.sock",
    "/var/lib/mysql/mysql.sock",
)

# The most time that a server may take, and the most columns that it may send, for one connection.
_SECONDS = 120.0
# Of what is left until this process is given up: the rest is for what it does with the answers.
_SHARE = 0.8
_MOST_COLUMNS = 10_000
_CONNECT_SECONDS = 10.0
_READ_SECONDS = 30
# A server greets who connects at once; one that does not is stopped, or hangs.
_GREETING_SECONDS = 5.0

_ACCESS_DENIED = (1045, 1698)
# The ways to log in that answer a challenge. (A fifth, mysql_old_password, has a hash that is no
# protection.)
_CHALLENGES = (b"mysql_native_password", b"caching_sha2_password", b"client_ed25519")
_OLD = b"mysql_old_password"

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


class _WantsPassword(Exception):
    """The server asks for the password itself; the text says by which way to log in."""


class _LimitedConnection(pymysql.Connection):
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

    def _process_auth(self, plugin_name: bytes, *arguments: Any) -> Any:
        if plugin_name == _OLD:
            raise NoConnection("it asks for the password's hash of before MySQL 4.1, which is weak")
        return super()._process_auth(plugin_name, *arguments)  # type: ignore[misc]  # its stub lacks it


class _ChallengedConnection(_LimitedConnection):
    """A connection that sends the answers to challenges, never the password: neither in clear text
    nor encrypted with a key that the server chose.
    """

    def _process_auth(self, plugin_name: bytes, *arguments: Any) -> Any:
        if plugin_name not in _CHALLENGES:
            raise _WantsPassword(readers.shown(plugin_name.decode(errors="replace")))
        return super()._process_auth(plugin_name, *arguments)

    @property
    def server_public_key(self) -> Any:
        """The client library asks for the key when nothing but the password itself will do: the
        full login of caching_sha2_password and sha256_password.
        """
        raise _WantsPassword("the full login of caching_sha2_password or sha256_password")

    @server_public_key.setter
    def server_public_key(self, key: object) -> None:
        pass


def connect(process: Process, path: str, credentials: Credentials) -> "pymysql.Connection[Cursor]":
    """Connect to a process by the path of a socket in its root, with as much of our password as it
    may get. Raises NoConnection unless it is the one that listens there; FileNotFoundError if there
    is no socket.
    """
    talk = BoundedSocket(socket.AF_UNIX)
    decision = Decision(trust=Trust.NOTHING)
    try:
        seconds = min(_SECONDS, _SHARE * touches.count_seconds_left())
        talk.deadline = time.monotonic() + seconds
        talk.settimeout(min(_CONNECT_SECONDS, seconds))
        users = process.read_users()
        _have_connected(
            talk,
            lambda: open_in_process_root.connect_to_socket(talk, process.root, path),
            str(process),
        )
        _check_peer(talk, process, users)
        _await_greeting(process, talk)
        if credentials.password:
            decision = _decide(process, talk, credentials)
        return _log_in(talk, path, credentials, decision.trust)
    except pymysql.Error as error:
        _hang_up(talk)
        reason = describe_refusal(error)
        if decision.reason and decision.trust is Trust.NOTHING and error.args[0] in _ACCESS_DENIED:
            reason += f"; your password was not sent to {process}: {decision.reason}"
        raise NoConnection(reason) from None
    except _WantsPassword as error:
        _hang_up(talk)
        raise NoConnection(
            f"it asks for your password itself ({error}), which was not sent to {process}: "
            f"{decision.reason}; log in once with its own client, so that it knows the password's "
            "hash, or use an account without a password (unix_socket, auth_socket)"
        ) from None
    except Failure as error:
        _hang_up(talk)
        raise NoConnection(str(error)) from None
    except FileNotFoundError:
        _hang_up(talk)
        raise
    except OSError as error:
        _hang_up(talk)
        raise NoConnection(error.strerror or str(error)) from None
    except BROKEN:
        _hang_up(talk)
        raise NoConnection("what it answers is not MySQL's protocol") from None
    except NoConnection:
        _hang_up(talk)
        raise


def _have_connected(talk: socket.socket, connect: Callable[[], None], subject: str) -> None:
    """Have a child that can be given up connect a socket, which it shares with us: a path may lead
    over a file system that never answers. A process that is such a child connects by itself. Raises
    Failure if it takes too long, OSError if there is no connection.
    """
    run_abandonable(connect, subject, kept=[talk.fileno()])


def _check_peer(talk: socket.socket, process: Process, users: Collection[int]) -> None:
    """Check that a process listens at the other end, and is the one that it was before we
    connected. Raises NoConnection if it is another, OSError if it has ended.
    """
    answers, user = read_peer(talk)
    if answers != process.pid:
        raise NoConnection(f"its socket is answered by process {answers}")
    if user not in users:
        # Its number was another's when that began to listen.
        raise NoConnection(f"its socket is answered by a process of user {user}")
    if process.has_ended():
        raise NoConnection("it has ended, and another process may have its number now")


def _await_greeting(process: Process, talk: BoundedSocket) -> None:
    """Wait until the server has sent something. Raises NoConnection if it does not for
    :data:`_GREETING_SECONDS`.
    """
    readable, _, _ = select.select([talk], [], [], _GREETING_SECONDS)
    if not readable:
        stopped = ": it is stopped (SIGSTOP, or a debugger)" if _is_stopped(process) else ""
        raise NoConnection(f"it does not answer within {_GREETING_SECONDS:.0f} s{stopped}")


def _is_stopped(process: Process) -> bool:
    try:
        return process.read_stat()[STATE] in ("T", "t")
    except OSError:
        return False


def _log_in(
    talk: BoundedSocket, path: str, credentials: Credentials, trust: Trust
) -> "pymysql.Connection[Cursor]":
    kind = _ChallengedConnection if trust is Trust.ANSWER else _LimitedConnection
    connection = kind(
        unix_socket=path,
        user=credentials.user,
        password="" if trust is Trust.NOTHING else credentials.password or "",
        read_timeout=_READ_SECONDS,
        defer_connect=True,
        # TLS would take the socket's descriptor, and leave the bounds behind.
        ssl_disabled=True,
        conv=DECODERS,
    )
    # As PyMySQL has it for a socket that it opens itself: the password may go over it.
    connection._secure = trust is not Trust.ANSWER  # type: ignore[attr-defined]
    connection.connect(sock=talk)
    return connection


def _hang_up(talk: socket.socket) -> None:
    # PyMySQL's file of the socket keeps a closed one open until it is collected.
    with contextlib.suppress(OSError):
        talk.shutdown(socket.SHUT_RDWR)
    talk.close()


def _decide(process: Process, talk: socket.socket, credentials: Credentials) -> Decision:
    """Decide what the process at the other end may get of our password. Raises OSError if it has
    ended.
    """
    server, us = read_standing(process), read_standing(Process.own())
    if process.has_ended() or read_peer(talk)[1] != server.user:
        # Its number was another's when that began to listen.
        return Decision(trust=Trust.NOTHING, reason="another user listens at its socket")
    sockets = [credentials.socket] if credentials.socket else USUAL_SOCKETS
    named = any(_listener(path) == process.pid for path in sockets)
    # An exporter that root started is nobody by now, as which anybody's program may run.
    return decide_trust(server, replace(us, user=credentials.reader), named)


def _listener(path: str) -> int:
    """Return the process that listens on a socket of ours; 0 if none does."""
    with socket.socket(socket.AF_UNIX) as talk:
        talk.settimeout(_CONNECT_SECONDS)
        try:
            _have_connected(talk, lambda: talk.connect(path), path)
            return read_peer(talk)[0]
        except (OSError, ValueError, Failure):
            return 0
