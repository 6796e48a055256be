"""Whom we are to a server: as MySQL's clients read their files, and never for everybody to read."""

import os
import struct
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dballoc.ground.errors import UsageError
from dballoc.servers.running import credentials


def login_file(path: Path, text: str) -> None:
    """As mysql_config_editor writes it: a header, a key, and each line encrypted."""
    key = bytes(range(20))
    real = bytearray(16)
    for i, byte in enumerate(key):
        real[i % 16] ^= byte
    body = b"\0\0\0\0" + key
    for line in text.splitlines(keepends=True):
        pad = 16 - len(line) % 16
        encryptor = Cipher(algorithms.AES(bytes(real)), modes.ECB()).encryptor()
        data = encryptor.update(line.encode() + bytes([pad]) * pad)
        body += struct.pack("<i", len(data)) + data
    path.write_bytes(body)
    path.chmod(0o600)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "extra.cnf").write_text("[client]\nport = 3307\n")
    (tmp_path / ".my.cnf").write_text(
        "# mine\n[mysqldump]\nuser=dumper\n[client]\nuser = app  # not this\npassword='s;#\\'x'\n!include extra.cnf\n"
        '[mysql]\nsocket="/run/s.sock"\n[mysqld]\nuser=mysql\n'
    )
    login_file(
        tmp_path / ".mylogin.cnf",
        '[prod]\nuser = "admin"\npassword = "p#w"\nhost = "db1"\n[client]\nhost = "db0"\n',
    )
    return tmp_path


def test_files_over_the_environment(home: Path) -> None:
    found = credentials.find(None, {"MYSQL_PWD": "env", "MYSQL_TCP_PORT": "1"}, home)
    assert (found.user, found.password, found.host, found.port, found.socket) == (
        "app",
        "s;#'x",
        "db0",
        3307,
        "/run/s.sock",
    )


def test_a_login_path_over_all(home: Path) -> None:
    found = credentials.find("prod", {}, home)
    assert (found.user, found.password, found.host) == ("admin", "p#w", "db1")


def test_a_login_path_that_is_not_there(home: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"--login-path nope: \S+/\.mylogin\.cnf has no such login path"
    ):
        credentials.find("nope", {}, home)
    with pytest.raises(UsageError, match=r"--login-path prod: .*No such file or directory"):
        credentials.find("prod", {"MYSQL_TEST_LOGIN_FILE": str(tmp_path / "none")}, home)


def test_the_environment_alone(tmp_path: Path) -> None:
    found = credentials.find(
        None,
        {"MYSQL_PWD": "x", "MYSQL_HOST": "h", "MYSQL_UNIX_PORT": "/s", "MYSQL_TCP_PORT": "3308"},
        tmp_path,
    )
    assert (found.password, found.host, found.port, found.socket) == ("x", "h", 3308, "/s")


def test_a_file_that_everybody_may_write_does_not_count(home: Path) -> None:
    (home / ".my.cnf").chmod(0o666)
    os.unlink(home / ".mylogin.cnf")
    assert credentials.find(None, {}, home).password is None


def test_a_damaged_login_file(home: Path) -> None:
    (home / ".mylogin.cnf").write_bytes(b"\0" * 24 + b"\x10\0\0\0" + b"x" * 16)
    with pytest.raises(UsageError, match="not a login path file"):
        credentials.find(None, {}, home)


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(credentials.Credentials(user="u", password="secret"))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r"'a\'b' # why", "a'b"),
        ('"a\\\\" # why', "a\\"),
        ("'C:\\dir\\'", "C:\\dir\\"),
        ("'open", "'open"),
        ("'", "'"),
    ],
)
def test_quotes_and_the_backslashes_within(written: str, value: str) -> None:
    assert [v for _, _, v in credentials.parse(f"[client]\nsocket = {written}\n")] == [value]


def test_a_quote_without_end_takes_no_time() -> None:
    """Found by the fuzzer: a hundred backslashes took minutes."""
    written = "'" + "\\" * 100_000 + "x"
    [(_, _, value)] = credentials.parse(f"[client]\nsocket={written}\n")
    assert value is not None
    assert value.startswith("'\\")
