"""Read our credentials for a running server, as MySQL's own clients do: from option files, login
paths and the environment. They are never an argument of a process, and never written anywhere.
"""

import getpass
import os
import re
import stat
from collections.abc import Iterator, Mapping
from configparser import Error as NoSection
from dataclasses import dataclass, field
from pathlib import Path

from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.ground.files import foreign_file

# The groups that clients of both families read; if a key is given twice, the last one counts.
GROUPS = ("client", "client-server", "client-mariadb", "mysql", "mariadb-client")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "s": " ", "\\": "\\", '"': '"', "'": "'"}
_ENVIRONMENT = {
    "MYSQL_PWD": "password",
    "MYSQL_HOST": "host",
    "MYSQL_TCP_PORT": "port",
    "MYSQL_UNIX_PORT": "socket",
}
# Limits of option files: how deep they include each other, how many there are in all, and bytes of
# each.
_DEPTH, _FILES, _MOST = 10, 200, readers.MIB


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Our credentials, as far as they are known; None for the unknown ones. ``reader``: the user
    who read them, which this process need not be any more.
    """

    user: str
    password: str | None = field(default=None, repr=False)
    host: str | None = None
    port: int | None = None
    socket: str | None = None
    reader: int = field(default_factory=os.geteuid)


def find(
    login_path: str | None = None,
    environ: Mapping[str, str] = os.environ,
    home: Path | None = None,
    *,
    socket: str | None = None,
) -> Credentials:
    """Read the environment, then ``~/.my.cnf``, then the login path file, each overriding the one
    before; ``socket`` of the command line overrides all. Raises UsageError if ``login_path`` is
    given and does not exist, or if a file has an impossible port.
    """
    values: dict[str, str] = {}
    for variable, key in _ENVIRONMENT.items():
        if variable in environ:
            values[key] = environ[variable]
    home = home or Path(environ.get("HOME") or Path.home())
    values |= read_option_file(home / ".my.cnf")
    values |= _login_paths(
        login_path, Path(environ.get("MYSQL_TEST_LOGIN_FILE") or home / ".mylogin.cnf")
    )
    port = values.get("port") or None
    if port is not None and not (
        port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 2**16
    ):
        raise UsageError(
            f"port {readers.shown(port)} in your client settings is not a number from 1 to 65535"
        )
    for key, value in values.items():
        if "\0" in value or readers.printable(value) != value:
            raise UsageError(
                f"{key} in your client settings has a NUL in it, or is not UTF-8: correct it in "
                "~/.my.cnf"
            )
    return Credentials(
        user=values.get("user") or _our_name(),
        password=values.get("password"),
        host=values.get("host"),
        port=int(port) if port else None,
        socket=socket or values.get("socket"),
    )


def _our_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.geteuid())  # a container's user often has no name


def read_option_file(path: Path, depth: int = 0, budget: list[int] | None = None) -> dict[str, str]:
    """Read the clients' groups of an option file; nothing if it does not exist, or is
    world-writable. !include and !includedir are followed.
    """
    budget = budget if budget is not None else [_FILES]
    budget[0] -= 1  # files that include each other twice are read 2^10 times within _DEPTH
    try:
        if depth > _DEPTH or budget[0] < 0:
            return {}
        # A file that is not a plain one, or is too large, is skipped like one that does not exist.
        with readers.open_file(path) as file:
            content = file.read(_MOST + 1)
            if os.fstat(file.fileno()).st_mode & stat.S_IWOTH or len(content) > _MOST:
                return {}
        text = readers.decoded(content, "replace")
    except (OSError, readers.Unfit):
        return {}
    values: dict[str, str] = {}
    for group, name, value in parse(text):
        if name == "!include":
            values |= read_option_file(path.parent / (value or ""), depth + 1, budget)
        elif name == "!includedir":
            for more in _files(path.parent / (value or "")):
                values |= read_option_file(more, depth + 1, budget)
        elif group in GROUPS:
            values[name.removeprefix("loose-")] = value or ""
    return values


def _files(directory: Path) -> list[Path]:
    try:
        return sorted(directory.glob("*.cnf"))[:_FILES]
    except (OSError, ValueError):
        return []


def parse(text: str) -> Iterator[tuple[str, str, str | None]]:
    """Parse an option file into (group, name, value) of each line. A directive has a name that
    begins with ``!``; a name without ``=`` has no value.
    """
    group = ""
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line[0] == "[" and "]" in line:
            group = line[1 : line.index("]")].strip()
        elif line[0] == "!":
            directive, _, argument = line.partition(" ")
            yield group, directive, argument.strip()
        else:
            name, equals, value = line.partition("=")
            yield group, name.strip().replace("_", "-"), _unquote(value.strip()) if equals else None


def _unquote(value: str) -> str:
    if value[:1] in ("'", '"'):
        # No character fits in two ways, so that the time is linear in the length.
        end = re.match(r"(['\"])((?:\\.|(?!\1)[^\\])*)\1", value)
        if end:
            value = end[2]
        elif len(value) > 1 and value[-1] == value[0]:
            value = value[1:-1]  # its last backslash stands before the closing quote
    else:
        # A comment may end the line; a # within a word does not begin one.
        value = re.split(r"(?:^|\s)#", value, maxsplit=1)[0].rstrip()
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), value)


def _login_paths(wanted: str | None, path: Path) -> dict[str, str]:
    values: dict[str, str] = {}
    for group in dict.fromkeys(("client", wanted)):
        if group is None:
            continue
        try:
            # OSError where it is not there, or not ours to see
            with foreign_file.open_foreign_file(path) as file:
                if os.fstat(file.fileno()).st_size > _MOST:
                    raise readers.Unfit("too large for a login path file")
                import myloginpath  # here: it imports cryptography

                entries = myloginpath.parse(group, f"/proc/self/fd/{file.fileno()}")
            values |= {k: str(v) for k, v in entries.items() if v is not None}
        except NoSection:
            if group == wanted:
                raise UsageError(f"--login-path {wanted}: {path} has no such login path") from None
        except foreign_file.NotRegular:
            raise UsageError(f"{path}: not a login path file: no regular file") from None
        except OSError as error:
            if wanted is not None:
                raise UsageError(f"--login-path {wanted}: {path}: {error.strerror}") from None
        except readers.Unfit as error:
            raise UsageError(f"{path}: {error}") from None
        except (
            Exception
        ) as error:  # of the library that deciphers it, which was not made for other files
            raise UsageError(
                f"{path}: not a login path file of mysql_config_editor: "
                f"{readers.printable(readers.reason(error))[:200]}"
            ) from None
    return values
