"""Build the command line of a private server. Pure."""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from dballoc.experiment import secret_names
from dballoc.ground.errors import UsageError
from dballoc.servers.build import Build
from dballoc.servers.private import binary_log
from dballoc.servers.private.certificate_files import list_server_options

# The options that keep a private server private; a user's option must not undo them.
RESERVED = (
    "datadir",
    "socket",
    "port",
    "pid-file",
    "tmpdir",
    "log-error",
    "user",
    "bind-address",
    "basedir",
    "init-file",
    "daemonize",
    "bootstrap",
    "initialize",
    "initialize-insecure",
    "log-bin-index",
    "defaults-file",
    "defaults-extra-file",
    "networking",
    "innodb-data-home-dir",
    "innodb-log-group-home-dir",
    "innodb-undo-directory",
    "plugin-dir",
    "lc-messages-dir",
    "chroot",
    "extra-port",
    "admin-address",
    "admin-port",
    "mysqlx-port",
    "mysqlx-socket",
    "mysqlx-bind-address",
    "aria-log-dir-path",
    "innodb-doublewrite-dir",
    "innodb-tmpdir",
    "innodb-temp-tablespaces-dir",
    "rocksdb-datadir",
    "rocksdb-wal-dir",
    "slave-load-tmpdir",
    "replica-load-tmpdir",
)

# How an option file writes an empty value (sql_mode = ''); an option without a value is a switch.
EMPTY = ("''", '""')

# By engine: the option with the size of its cache.
CACHES = {"innodb": "innodb-buffer-pool-size", "rocksdb": "rocksdb-block-cache-size"}

# The most that any server accepts for max_connections.
MOST_CONNECTIONS = 100_000

# Servers accept an option with any of these prefixes, and under any abbreviation that fits no other
# option.
_PREFIXES = ("loose-", "skip-", "disable-", "enable-", "maximum-")
_OPTIONS_OF_THEIR_OWN = ("innodb", "innodb-doublewrite", "lc-messages", binary_log.OPTION)
_NAME = re.compile(r"[a-z][a-z0-9.:-]*")


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


def normal(option: str) -> str:
    """Return the option's name with ``-``, whether it was written with ``_`` or ``-``."""
    return option.strip().lstrip("-").replace("_", "-").lower()


def check(options: dict[str, str], where: str) -> None:
    """Refuse an option that dballoc sets itself, however it is spelled, an impossible option name,
    an option with a secret, and a binary log elsewhere than in the data directory. UsageError.
    """
    for option in options:
        if not is_name(option):
            raise UsageError(f"{where}: {option!r} is not an option's name")
    check_secrets(options, where)
    for option in options:
        if is_reserved(option):
            raise UsageError(
                f"{where}: option {option!r} is set by dballoc itself, so that the server stays "
                "private"
            )
        if bare(option) == binary_log.OPTION:
            binary_log.check_binary_log(normal(option), options[option], where)


def check_secrets(options: dict[str, str], where: str) -> None:
    """Refuse an option with a secret, because everybody on the host may read a server's command
    line, and results are kept. UsageError, without the value.
    """
    for option, value in options.items():
        why = None
        if secret_names.is_secret(option):
            why = "is one for secrets or for other hosts"
        elif secret_names.hide_secrets(value) != value:
            why = "has a password in its value"
        if why:
            raise UsageError(
                f"{where}: option {option!r} {why}; it would appear in the server's command line "
                "and in the results, and a private server does not need it: remove it"
            )


def is_name(option: str) -> bool:
    """Whether a text can be an option's name."""
    return _NAME.fullmatch(normal(option)) is not None


def is_reserved(option: str) -> bool:
    """Whether dballoc sets this option itself."""
    return bare(option) not in _OPTIONS_OF_THEIR_OWN and is_one_of(option, RESERVED)


def is_one_of(option: str, names: Collection[str]) -> bool:
    """Whether an option, however it is written, is one of these (shell patterns). Servers take the
    first letters of a name for all of it.
    """
    name = bare(option)
    return any(fnmatchcase(name, pattern) or pattern.startswith(name) for pattern in names)


def bare(option: str) -> str:
    """Return the option's name without prefixes (``loose-``, ``skip-``, …)."""
    name = normal(option)
    while prefix := next((p for p in _PREFIXES if name.startswith(p)), None):
        name = name.removeprefix(prefix)
    return name


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
# A statement has few tables open at a time.
_TABLES_OF_A_CLIENT = 4


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
