"""Options that an experiment may not set, as dballoc sets them itself or as they have a secret.
Servers take an option's name in many spellings. Pure.
"""

import re
from collections.abc import Collection
from fnmatch import fnmatchcase

from dballoc.experiment import secret_names
from dballoc.ground.errors import UsageError
from dballoc.servers.private import binary_log

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


# Servers accept an option with any of these prefixes, and under any abbreviation that fits no other
# option.
_PREFIXES = ("loose-", "skip-", "disable-", "enable-", "maximum-")


_OPTIONS_OF_THEIR_OWN = ("innodb", "innodb-doublewrite", "lc-messages", binary_log.OPTION)


_NAME = re.compile(r"[a-z][a-z0-9.:-]*")


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
