"""A MariaDB that ``dballoc exec`` starts under a probe, and a load for it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pymysql
from harness import A_USER, BIN, Cli, wait_until


class ProbedServer:
    """The server with all its files in ``place``. ``probe``: what exec is asked for; what the
    probe writes is in ``out``.
    """

    def __init__(
        self,
        place: Path,
        run_cli: Cli,
        probe: Sequence[str],
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        data = place / "data"
        data.mkdir(parents=True)
        self.place = place
        self.out, self.socket, self.log = (place / name for name in ("out", "s", "log"))
        as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            as_user = {"user": A_USER, "group": A_USER, "extra_groups": []}
            for directory in (place, data):
                os.chown(directory, A_USER, A_USER)
        command = [
            *(sys.executable, "-m", "dballoc", "exec", *probe, "--out", self.out, "--"),
            *(shutil.which("mariadbd", path=BIN), "--no-defaults", f"--datadir={data}"),
            *(f"--socket={self.socket}", "--skip-networking", f"--pid-file={place / 'pid'}"),
            *("--skip-grant-tables", "--skip-log-bin", "--innodb-log-file-size=4M"),
            *("--innodb-buffer-pool-size=64M", *options),
        ]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                list(map(str, command)),
                env={**run_cli.env, **(env or {}), "TMPDIR": str(place)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                **as_user,
            )

    def sysbench(self, *words: str) -> "subprocess.Popen[bytes]":
        connect = [
            *("--db-driver=mysql", f"--mysql-socket={self.socket}", "--mysql-user=root"),
            *("--mysql-db=t", "--table-size=2000"),
        ]
        return subprocess.Popen(["sysbench", *connect, *words], stdout=subprocess.DEVNULL)

    def make_tables(self) -> None:
        """Wait until the server answers, and make sysbench's tables."""
        wait_until(lambda: self.socket.exists() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log.read_text()
        with (
            pymysql.connect(unix_socket=str(self.socket), autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("CREATE DATABASE t")
        assert self.sysbench("oltp_read_write", "prepare").wait() == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
