"""Another process's files, users and sockets."""

import os
import socket
from pathlib import Path

import pytest

from dballoc.host.process import process_root
from dballoc.host.process.handle import Process

NET_UNIX = """Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 4711 /run/mysqld/mysqld.sock
0000000000000000: 00000002 00000000 00010000 0001 01 4712 /run/with a space/s
0000000000000000: 00000003 00000000 00000000 0001 03 4713 /run/mysqld/mysqld.sock
0000000000000000: 00000002 00000000 00010000 0001 01 4714 @abstract
0000000000000000: 00000002 00000000 00010000 0001 01 4715 /run/another/process
0000000000000000: 00000003 00000000 00000000 0001 03 4716
"""


def test_sockets_that_listen() -> None:
    assert process_root.parse_listening_sockets(
        NET_UNIX, {"4711", "4712", "4713", "4714", "4716"}
    ) == [
        "/run/mysqld/mysqld.sock",
        "/run/with a space/s",
    ]


def test_our_own_socket(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as ours:
        path = os.path.relpath(tmp_path / "s")
        ours.bind(path)
        assert path not in process_root.list_listening_sockets(Process.own())
        ours.listen()
        assert path in process_root.list_listening_sockets(Process.own())


@pytest.mark.parametrize(
    ("text", "uid", "there"),
    [
        ("         0          0 4294967295\n", 27, 27),
        ("0 100000 65536\n", 100999, 999),
        ("0 1000 1\n1 100000 65536\n", 100000, 1),
        ("0 100000 65536\n", 5, None),
    ],
)
def test_a_user_in_its_namespace(text: str, uid: int, there: int | None) -> None:
    assert process_root.map_uid(text, uid) == there
