"""A running server's option files, read as it reads them, by whoever it is."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.host.process.handle import Process
from dballoc.servers.running import option_files
from dballoc.servers.running.option_files import OptionFileRules

pytestmark = pytest.mark.unprivileged

MARIADB = OptionFileRules(mariadb=True, version="10.11", directories=("/usr/local/mysql/etc",))
MYSQL = OptionFileRules(mariadb=False, version="8.0", directories=())


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the process sees as ``/``; whatever its executable, it is MariaDB 10.11."""
    monkeypatch.setattr(Process, "root", tmp_path / "root")
    monkeypatch.setattr(option_files, "_look_at_build", lambda pid, executable: MARIADB)
    (tmp_path / "root/etc/mysql/conf.d").mkdir(parents=True)
    return tmp_path / "root"


def read(*switches: str, **environ: str) -> option_files.OptionFiles:
    return option_files.read_option_files(Process.open(1), "/usr/sbin/mariadbd", switches, environ)


def test_all_of_its_files_in_their_order(root: Path) -> None:
    (root / "etc/my.cnf").write_text(
        "[client]\nport=1\n[mysqld]\na=1\nloose_b_c\n[mariadbd-10.11]\nsql_mode=''\n[mysqld-8.0]\nx=1\n"
    )
    (root / "etc/mysql/my.cnf").write_text("!includedir /etc/mysql/conf.d\n[server]\na = 2 # why\n")
    (root / "etc/mysql/conf.d/2.cnf").write_text("[mysqld]\nd=2\n")
    (root / "etc/mysql/conf.d/1.cnf").write_text("[mysqld]\nd=1\n")
    (root / "etc/mysql/conf.d/not-this").write_text("[mysqld]\nd=3\n")
    (root / "extra").write_text("[mysqld]\na=3\n[mysqldone]\ne=1\n")
    files = read("--defaults-extra-file=/extra", "--defaults-group-suffix=one")
    assert files.options == [
        ("a", "1"),
        ("loose-b-c", ""),
        ("sql-mode", "''"),
        ("d", "1"),
        ("d", "2"),
        ("a", "2"),
        ("a", "3"),
        ("e", "1"),
    ]
    assert files.notes == []


def test_none_where_it_was_told_so(root: Path) -> None:
    (root / "etc/my.cnf").write_text("[mysqld]\na=1\n")
    assert read("--no-defaults") == option_files.OptionFiles()


def test_what_cannot_be_read_is_said(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "host").symlink_to("/etc/../../../../../../etc/passwd")
    (root / "etc/my.cnf").write_text(
        "[mysqld]\na=1\n!include /pipe\n!include /nowhere\n!includedir /etc/no.d\n!include /etc/my.cnf\n!include /everybodys\n"
    )
    (root / "everybodys").write_text("[mysqld]\nz=1\n")
    (root / "everybodys").chmod(stat.S_IRUSR | stat.S_IWOTH)
    files = read()
    assert ("z", "1") not in files.options
    assert "/pipe was not read: not a regular file" in files.notes
    assert "/nowhere was not read: No such file or directory" in files.notes
    assert "/etc/no.d was not read: No such file or directory" in files.notes
    assert "/everybodys was not read: world-writable, so servers ignore it" in files.notes
    assert any("files within each other" in note for note in files.notes), (
        "a file that includes itself ends"
    )
    (root / "etc/mysql/my.cnf").symlink_to(root.parent / "secret")
    (root.parent / "secret").write_text("[mysqld]\nsecret=1\n")
    assert "secret" not in dict(read().options)
    assert "relative" in read("--defaults-file=my.cnf").notes[0]


def test_files_that_multiply_end(root: Path) -> None:
    """Found by the fuzzer: each file names all others, and each directory, again and again."""
    text = "[mysqld]\na=1\n" + "!includedir /etc/mysql/conf.d\n!include /etc/my.cnf\n" * 1000
    for name in ("my.cnf", "mysql/conf.d/1.cnf", "mysql/conf.d/2.cnf"):
        (root / "etc" / name).write_text(text)
    files = read()
    assert len(files.options) <= option_files._MOST_FILES
    assert len(files.notes) <= option_files._MOST_FILES + 1
    assert "more than 200 files and directories" in files.notes[-1]


def test_one_that_is_read_again_and_again_counts_each_time(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the fuzzer: 200 times 260 KB took root seconds."""
    parsed: list[int] = []
    parse = option_files.parse
    monkeypatch.setattr(option_files, "parse", lambda text: parsed.append(len(text)) or parse(text))
    padding = f"# {'x' * 1000}\n" * 500
    (root / "etc/my.cnf").write_text("[mysqld]\na=1\n!include /etc/my.cnf\n" * 2 + padding)
    files = read()
    assert 1 << 20 < sum(parsed) <= option_files._MOST_BYTES
    assert "4 MiB" in files.notes[-1]


def test_a_version_that_is_not_known_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        option_files,
        "_look_at_build",
        lambda pid, executable: OptionFileRules(mariadb=False, version="", directories=()),
    )
    assert "version" in read().notes[0]


def test_the_groups_of_each_family() -> None:
    """As ``mariadbd --help`` and ``mysqld --verbose --help`` list them."""
    assert set(option_files.list_groups(MARIADB, "")) == set(
        "mysqld server mysqld-10.11 mariadb mariadb-10.11 mariadbd mariadbd-10.11 client-server galera".split()
    )
    assert option_files.list_groups(MYSQL, "x") == [
        "mysqld",
        "server",
        "mysqld-8.0",
        "mysqldx",
        "serverx",
        "mysqld-8.0x",
    ]


def test_homes_and_the_place_that_it_was_built_for() -> None:
    environ = {"HOME": "/var/lib/mysql", "MYSQL_HOME": "/opt/a", "MARIADB_HOME": "/opt/b"}
    assert [path for path, _ in option_files.list_files(MARIADB, (), environ)] == [
        "/etc/my.cnf",
        "/etc/mysql/my.cnf",
        "/usr/local/mysql/etc/my.cnf",
        "/opt/b/my.cnf",
        "/var/lib/mysql/.my.cnf",
    ]


@given(st.binary(max_size=300), st.binary(max_size=100))
def test_no_text_at_all_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, included: bytes
) -> None:
    place = tmp_path_factory.mktemp("r")
    (place / "etc").mkdir()
    (place / "etc/my.cnf").write_bytes(b"[mysqld]\n" + text + b"\n!include " + included)
    reader = option_files._OptionFileReader(place)
    reader.read(MARIADB, (), {})
    assert len(reader.options) <= option_files._MOST_OPTIONS
