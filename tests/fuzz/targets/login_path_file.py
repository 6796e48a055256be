"""``~/.mylogin.cnf``, as mysql_config_editor writes it: AES within a frame of lengths."""

import tempfile
from pathlib import Path

from dballoc.ground.errors import UsageError
from dballoc.servers.running import credentials

OF = ("dballoc.servers.running.credentials",)
PRIVILEGED = False


def seeds() -> list[bytes]:
    head = bytes(4) + bytes(range(20))
    return [
        head + (16).to_bytes(4, "little") + bytes(16),
        head,
        head + (2**31).to_bytes(4, "little") + bytes(16),
    ]


def fuzz(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as home:
        path = Path(home, "login.cnf")
        path.write_bytes(data)
        for wanted in (None, "client", "x"):
            try:
                credentials.find(
                    wanted, {"HOME": home, "MYSQL_TEST_LOGIN_FILE": str(path)}, Path(home)
                )
            except UsageError as error:
                assert "\n" not in str(error), error
