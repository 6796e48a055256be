"""An option file of MySQL's clients (``~/.my.cnf``): groups, quotes, escapes, comments,
!include.
"""

import tempfile
from pathlib import Path

from dballoc.ground.errors import UsageError
from dballoc.servers.running import credentials

OF = ("dballoc.servers.running.credentials",)
PRIVILEGED = False

_GOOD = b"""[client]
user = admin
password="se\\"cret # 1" # not this
port=3307
socket = /run/mysqld/mysqld.sock
[mysqld]
innodb_buffer_pool_size = 1G
!include more.cnf
!includedir conf.d
"""


def seeds() -> list[bytes]:
    return [_GOOD, b"[client]\nuser=x\n"]


def fuzz(data: bytes) -> None:
    list(credentials.parse(data.decode(errors="replace")))
    with tempfile.TemporaryDirectory() as home:
        Path(home, ".my.cnf").write_bytes(data)
        Path(home, "more.cnf").write_bytes(b"!include .my.cnf\n")
        try:
            credentials.find(None, {"HOME": home}, Path(home))
        except UsageError as error:
            assert "\n" not in str(error), error
