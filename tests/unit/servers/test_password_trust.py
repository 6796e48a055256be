"""Who gets our password is decided by what the kernel shows of a process, and not by the path and
inode of its executable or by its user.
"""

import os
from dataclasses import replace

import pytest

from dballoc.host.process.handle import Process
from dballoc.servers.running.password_trust import (
    ProcessCredentials,
    Trust,
    decide_trust,
    is_unit,
    read_standing,
)

NAMESPACES = {"pid": "pid:[1]", "user": "user:[1]", "mnt": "mnt:[1]", "net": "net:[1]"}
US = ProcessCredentials(
    user=0, namespaces=NAMESPACES, root=(1, 2), capabilities=0b1111, cgroups="0::/x\n"
)
MYSQL = replace(US, user=999, capabilities=0)
UNIT = replace(MYSQL, cgroups="0::/system.slice/mariadb.service\n")


def decide(server: ProcessCredentials, named: bool = True) -> Trust:
    return decide_trust(server, US, named).trust


def test_only_a_unit_of_this_host_gets_clear_text() -> None:
    assert decide(UNIT) is Trust.CLEAR_TEXT
    assert decide(UNIT, named=False) is Trust.CLEAR_TEXT
    assert decide(MYSQL) is Trust.ANSWER


def test_ones_user_is_not_enough() -> None:
    assert decide(US, named=False) is Trust.NOTHING
    assert decide(replace(MYSQL, user=US.user), named=False) is Trust.NOTHING
    assert decide(US) is Trust.ANSWER


def test_a_root_without_capabilities_gets_nothing() -> None:
    assert decide(replace(US, capabilities=0b0111)) is Trust.NOTHING
    assert decide(replace(US, capabilities=0b11111)) is Trust.ANSWER


@pytest.mark.parametrize("name", NAMESPACES)
def test_a_server_in_other_namespaces_gets_nothing_even_if_named(name: str) -> None:
    elsewhere = {**NAMESPACES, name: f"{name}:[2]"}
    decision = decide_trust(replace(MYSQL, namespaces=elsewhere), US, True)
    assert decision.trust is Trust.NOTHING
    assert "namespace than dballoc: use an account without a password" in decision.reason
    # systemd gives a unit mounts and a network of its own, but neither PIDs nor users.
    expected = Trust.NOTHING if name in ("pid", "user") else Trust.CLEAR_TEXT
    assert decide(replace(UNIT, namespaces=elsewhere)) is expected


@pytest.mark.parametrize("root", [(1, 3), None])
def test_a_server_with_another_root_gets_nothing(root: tuple[int, int] | None) -> None:
    assert decide(replace(MYSQL, root=root)) is Trust.NOTHING
    assert decide(replace(UNIT, root=root)) is Trust.NOTHING


def test_a_refusal_says_what_to_do() -> None:
    assert "--socket" in decide_trust(MYSQL, US, False).reason
    assert "socket = … in ~/.my.cnf" in decide_trust(MYSQL, US, False).reason


def test_a_process_stands_where_its_children_do() -> None:
    ours = read_standing(Process.own())
    assert ours.user == os.geteuid()
    assert ours.root == (os.stat("/").st_dev, os.stat("/").st_ino)
    assert decide_trust(read_standing(Process.own()), ours, True).trust is not Trust.NOTHING


def test_a_unit_is_known_by_its_cgroup() -> None:
    assert is_unit("0::/system.slice/mariadb.service\n")
    assert is_unit("4:memory:/x\n1:name=systemd:/system.slice/mysqld.service/payload\n")
    assert is_unit("0::/system.slice/system-mariadb.slice/mariadb@one.service\n")
    assert not is_unit("0::/user.slice/user-1000.slice/user@1000.service/mariadb.service\n")
    assert not is_unit("0::/system.slice/docker-4711.scope/system.slice/mariadb.service\n")
    assert not is_unit("0::/system.slice/evil.service\n")
    assert not is_unit("0::/x/system.slice/mariadb.service\n")
    # A user's own groups may be named so.
    user = "0::/user.slice/user-1000.slice/user@1000.service"
    assert not is_unit(f"{user}/x:/system.slice/mariadb.service\n")
    assert not is_unit(f"{user}/x\r0::/system.slice/mariadb.service\n")
    assert not is_unit(f"{user}/x\u20280::/system.slice/mariadb.service\n")
