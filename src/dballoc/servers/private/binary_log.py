"""A private server's binary log: it stays in the server's data directory, and is removed with it.

Servers have none unless their options ask for one. Pure.
"""

import re
from collections.abc import Mapping

from dballoc.ground.errors import UsageError

OPTION = "log-bin"
SWITCHED_OFF = "skip-log-bin"

# Of the log files, where the options name none; a replica's primary has it too.
NAME = "dballoc-binlog"

# Bytes that a server writes in a second for each of its CPUs, only for the estimate of disk. In a
# second of a server's CPU time (MariaDB 10.11) sysbench's read-write transactions wrote about a
# megabyte, its write-only ones 5, single updates 8 to 11; clients and waiting take their part.
BYTES_PER_CPU_SECOND = 3 * 2**20

_ON = frozenset({"", "on", "true", "1"})
_OFF = frozenset({"off", "false", "0"})
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


def check_binary_log(option: str, value: str, where: str) -> None:
    """Refuse a binary log outside the data directory. ``option``: a spelling of the option's name,
    in lower case with dashes. UsageError.
    """
    if option == SWITCHED_OFF:
        return
    if option != OPTION:
        raise UsageError(f"{where}: option {option!r}: write log_bin, or skip_log_bin")
    if value.lower() not in _ON | _OFF and not _PLAIN_NAME.fullmatch(value):
        raise UsageError(
            f"{where}: option log_bin: {value!r} is not a plain name; the binary log of a private "
            'server is in its data directory: log_bin = ""'
        )


def settle_binary_log(options: Mapping[str, str]) -> dict[str, str]:
    """Return a server's options (names with dashes) with the name of its binary log, where they ask
    for one, and the number that a server with a binary log must have.
    """
    value = options.get(OPTION, "off")
    if value.lower() in _OFF:
        return {name: v for name, v in options.items() if name != OPTION}
    name = NAME if value.lower() in _ON else value
    return {"server-id": "1", **options, OPTION: name}


def writes_binary_log(options: Mapping[str, str]) -> bool:
    """Whether a server with these settled options has a binary log."""
    return OPTION in options
