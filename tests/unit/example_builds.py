"""A build of a server, and the command line of a private one."""

from pathlib import Path

from dballoc.servers.build import Build
from dballoc.servers.private import command_line
from dballoc.servers.private.command_line import Address

BUILD = Build(
    family="mariadb",
    version="10.11.19-MariaDB",
    executable=Path("/usr/sbin/mariadbd"),
    basedir=Path("/usr"),
    share=Path("/usr/share/mysql"),
    plugins=Path("/usr/lib/plugin"),
)


def argv(given: dict[str, str], port: int | None = None) -> list[str]:
    return command_line.command(
        BUILD, Path("/data"), Address(Path("/run/d/mysqld.sock"), port), given
    )
