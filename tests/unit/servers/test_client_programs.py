"""A server's client programs: the build's own first, those of its family first, and a remedy where
there is none.
"""

from pathlib import Path

import pytest

from dballoc.ground.errors import UsageError
from dballoc.servers import client_programs
from dballoc.servers.build import Build

NAMES = ("mariadb-dump", "mysqldump")


def build(root: Path, family: str) -> Build:
    return Build(
        family=family,
        version="1",
        executable=root / "sbin/mysqld",
        basedir=root,
        share=root / "share",
        plugins=None,
    )


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_builds_own_is_taken_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    with pytest.raises(
        UsageError,
        match=r"dump-churn runs .*, but neither is on this machine; apt-get install mariadb-client",
    ):
        client_programs.find(
            build(tmp_path / "opt", "mysql"), NAMES, "dump-churn runs mariadb-dump or mysqldump"
        )
    machines = program(tmp_path / "path/mariadb-dump")
    assert client_programs.find(build(tmp_path / "opt", "mysql"), NAMES, "x") == machines
    family = program(tmp_path / "path/mysqldump")
    assert client_programs.find(build(tmp_path / "opt", "mysql"), NAMES, "x") == family
    assert client_programs.find(build(tmp_path / "opt", "mariadb"), NAMES, "x") == machines
    own = program(tmp_path / "opt/bin/mysqldump")
    assert client_programs.find(build(tmp_path / "opt", "mariadb"), NAMES, "x") == own
