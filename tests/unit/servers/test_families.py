"""Server families: one that inherits differs only in the keys that it gives."""

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from dballoc.servers import build as find_build
from dballoc.servers.families import describe_family, find_family_named, list_families


@pytest.mark.parametrize("version", [None, "9.7.0", "8.0.36-28", "5.7.44-48", "5.5.30-30.2"])
def test_percona_server_is_mysql_but_for_its_own_keys(version: str | None) -> None:
    percona, mysql = (
        asdict(describe_family("percona", version)),
        asdict(describe_family("mysql", version)),
    )
    differing = {key for key in percona if percona[key] != mysql[key]}
    assert differing == {"lineage", "called", "title", "mark", "packages", "backup"}
    assert percona["lineage"] == ("percona", "mysql")


@pytest.mark.parametrize(
    ("printed", "family", "title"),
    [
        (
            "8.0.36-28 for Linux on x86_64 (Percona Server (GPL), Release 28)",
            "percona",
            "Percona Server 8.0.36",
        ),
        ("8.0.40 for Linux on x86_64 (MySQL Community Server - GPL)", "mysql", "MySQL 8.0.40"),
        ("10.11.6-MariaDB for debian-linux-gnu on x86_64", "mariadb", "MariaDB 10.11.6"),
    ],
)
def test_a_build_is_told_by_what_it_prints(
    monkeypatch: pytest.MonkeyPatch, printed: str, family: str, title: str
) -> None:
    answer = SimpleNamespace(status=0, stdout=f"/usr/sbin/mysqld  Ver {printed}\n")
    monkeypatch.setattr(find_build, "run_unprivileged", lambda words: answer)
    build = find_build._identify(Path("/usr/sbin/mysqld"), None)
    assert build is not None
    assert (build.family, build.title) == (family, title)


def test_a_title_names_its_family_and_any_other_is_mysqls() -> None:
    titles = {"MariaDB 10.11.6": "mariadb", "Percona Server 8.0.36": "percona", "mysqld": "mysql"}
    assert {title: find_family_named(title).name for title in titles} == titles
    assert [family.name for family in list_families()] == ["percona", "mariadb", "mysql"]
