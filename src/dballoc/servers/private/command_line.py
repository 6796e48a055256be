"""Build the command line of a private server. Pure."""

import math
import re
from dataclasses import dataclass
from pathlib import Path

from dballoc.experiment.scale import ENGINE_CACHES
from dballoc.ground.errors import UsageError
from dballoc.servers.build import Build
from dballoc.servers.private import binary_log
from dballoc.servers.private.certificate_files import list_server_options
from dballoc.servers.private.reserved_options import EMPTY, normal

# By engine: the option with the size of its cache.
CACHES = {engine: name.replace("_", "-") for engine, name in ENGINE_CACHES.items()}

# The most that any server accepts for max_connections.
MOST_CONNECTIONS = 100_000


LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Address:
    """Where a private server listens: always a socket, and a TCP port of the address ``host`` if
    one is requested; ``certificates``: the directory of its certificates and its clients', None
    where connections over TCP are not to be encrypted.
    """

    socket: Path
    port: int | None = None
    host: str = LOOPBACK
    certificates: Path | None = None


def command(build: Build, data: Path, address: Address, options: dict[str, str]) -> list[str]:
    """Return the full argv. ``options`` override the catalogue's."""
    fixed = {
        "basedir": build.basedir,
        "datadir": data,
        "socket": address.socket,
        "pid-file": address.socket.with_suffix(".pid"),
        "tmpdir": address.socket.parent,
        "lc-messages-dir": build.share,
    }
    if build.plugins:
        fixed["plugin-dir"] = build.plugins
    merged = {normal(k): v for k, v in {**build.entry.options, **options}.items()}
    if binary_log.writes_binary_log(merged):
        merged.pop(binary_log.SWITCHED_OFF, None)
    argv = [str(build.executable), "--no-defaults", *(f"--{k}={v}" for k, v in fixed.items())]
    argv += arguments(merged)
    if address.port is None:
        argv.append("--skip-networking")
    else:
        argv += [f"--bind-address={address.host}", f"--port={address.port}"]
        if address.host != LOOPBACK:
            # A name service that does not answer would make every connection wait.
            argv.append("--skip-name-resolve")
    if address.certificates:
        argv += arguments(list_server_options(address.certificates))
    return argv


# Files of a server beside connections and tables.
_OWN_FILES = 500
# Of the tables that are kept open for a client: all of sysbench's statements are on one.
_TABLES_OF_A_CLIENT = 1


def arguments(options: dict[str, str]) -> list[str]:
    """Return options as words of a command line. An option without a value is a switch; an empty
    text (``''``) is an empty value.
    """
    return [
        f"--{k}" if v == "" else f"--{k}=" if v in EMPTY else f"--{k}={v}"
        for k, v in options.items()
    ]


def capacity(
    clients: int, statements: int, tables: int, most_files: float = math.inf
) -> dict[str, str]:
    """Return limits that suffice for ``clients`` connections with ``statements`` prepared
    statements in all, of a server that may open ``most_files`` files.
    """
    return {
        "max-connections": str(max(151, clients + 20)),
        "max-prepared-stmt-count": str(max(16_382, statements + 100)),
        "table-open-cache": str(_choose_table_cache(clients, tables, most_files)),
        "back-log": str(max(80, clients)),
    }


def check_capacity(options: dict[str, str], clients: int, statements: int, where: str) -> None:
    """Refuse limits of the user's that are too small for the load, which would fail in the middle.
    UsageError.
    """
    for name, needed, limit in (
        ("max-connections", clients + 2, f"{clients} clients and dballoc itself"),
        ("max-prepared-stmt-count", statements, f"{clients} clients with prepared statements"),
    ):
        if (value := options.get(name, "")).isdigit() and int(value) < needed:
            raise UsageError(
                f"{where}: server option {name}={value} is too small for {limit}; {needed} at least"
            )


def _choose_table_cache(clients: int, tables: int, most_files: float) -> int:
    """Return how many tables are kept open: each for every client, as far as the files suffice, but
    some for every client in any case, so that none has to wait for another's.
    """
    wanted = max(2_000, tables * (clients + 20))
    room = (most_files - (clients + 20) - _OWN_FILES) // 2
    return int(max(min(wanted, room), min(wanted, _TABLES_OF_A_CLIENT * (clients + 20))))


def open_files(
    clients: int, tables: int, max_connections: str = "", most_files: float = math.inf
) -> int:
    """Return how many file descriptors the server needs: for connections, tables, and itself.
    ``max_connections``: the option's value; a server that cannot open as many files lowers it;
    ``most_files``: as for :func:`capacity`.
    """
    limit = int(max_connections) if re.fullmatch("[0-9]{1,9}", max_connections) else 0
    usual = int(capacity(clients, 0, tables)["max-connections"])
    beyond = max(0, min(limit, MOST_CONNECTIONS) - usual)
    cached = min(tables * (clients + 20), _choose_table_cache(clients, tables, most_files))
    return max(4_096, clients + 20 + 2 * cached + _OWN_FILES) + beyond
