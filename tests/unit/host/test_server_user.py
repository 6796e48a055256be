"""The user that servers run as: from a range that nobody hands out, and nobody else's."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dballoc.ground.errors import UsageError
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.unprivileged import server_user as server_user_module
from dballoc.host.unprivileged.server_user import (
    UNUSED,
    ServerUser,
    choose_unused,
    parse_login_ranges,
    parse_mapped_ranges,
    parse_subordinate_ranges,
    server_user,
)

ALONE = ServerUser(UNUSED[-1])


def test_the_range_is_nobodys() -> None:
    # systemd, "Users, Groups, UIDs and GIDs on systemd Systems": ordinary users end at 60000,
    # homed's at 60513, the map of systemd-nspawn at 60705; dynamic users begin at 61184.
    assert UNUSED[0] > 60705
    assert UNUSED[-1] < 61184


def test_what_others_hand_out_is_passed_over() -> None:
    assert choose_unused(UNUSED, [], 1) == [60706]
    assert choose_unused(
        UNUSED,
        parse_subordinate_ranges("# made by hand\nann:60700:10\nbob:100000:65536\nbroken:x:y\n"),
        1,
    ) == [60710]
    assert choose_unused(
        UNUSED,
        parse_login_ranges("UID_MIN 1000\nUID_MAX\t60900\n# UID_MAX 70000\nSYS_UID_MIN 100\n"),
        1,
    ) == [60901]
    assert choose_unused(UNUSED, parse_login_ranges("UID_MIN 1000\nUID_MAX 70000\n"), 1) == []
    assert choose_unused(UNUSED, parse_mapped_ranges("         0     100000      65536\n"), 1) == []
    assert parse_mapped_ranges("0 100000 1000\n") == [range(0, 1000)]


def test_one_with_an_account_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = {60706, 60707}
    monkeypatch.setattr(server_user_module, "_has_account", lambda uid: uid in taken)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    server_user_module._choose_users.cache_clear()
    try:
        assert server_user().uid == 60708
        taken |= set(UNUSED)
        server_user_module._choose_users.cache_clear()
        with pytest.raises(UsageError, match="servers and parsers need two free user IDs"):
            server_user()
    finally:
        server_user_module._choose_users.cache_clear()


def test_this_machine_s_own_files_are_read() -> None:
    chosen = server_user()
    if os.geteuid() != 0:
        assert chosen.uid is None
    else:
        assert chosen.uid in UNUSED


@pytest.fixture
def stranger() -> Iterator[int]:
    """A process of a user that was not started by a dballoc: an init process is its parent. Not the
    user of other tests' servers, which would be refused meanwhile.
    """
    if os.geteuid() != 0:
        pytest.skip("needs root: it runs a process as another user")
    uid = str(ALONE.uid)
    started = subprocess.run(
        [
            "sh",
            "-c",
            f"setsid setpriv --reuid={uid} --clear-groups sleep 600 >/dev/null 2>&1 & echo $!",
        ],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    pid = int(started.stdout)
    while f"Uid:\t{uid}\t" not in (text := Path(f"/proc/{pid}/status").read_text()):
        assert "zombie" not in text
    yield pid
    os.kill(pid, 9)


def test_a_process_of_others_with_this_user_is_said(stranger: int) -> None:
    with pytest.raises(UsageError, match=f"process {stranger}, which is none of dballoc's"):
        ALONE.check_alone()


def test_our_own_children_are_no_strangers(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: it runs a process as another user")
    chosen = ServerUser(UNUSED[-2])
    with Custody() as custody:
        custody.spawn(["/bin/sleep", "600"], {}, tmp_path / "log", **chosen.as_spawn())
        chosen.check_alone()
    ServerUser(None).check_alone()


def test_no_command_line_of_others_is_read(stranger: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lies in memory of theirs, which may never answer."""
    read: set[int] = set()
    read_bytes = server_user_module._read_bytes

    def watch(path: Path) -> bytes:
        if path.name == "cmdline":
            read.add(path.stat().st_uid)
        return read_bytes(path)

    monkeypatch.setattr(server_user_module, "_read_bytes", watch)
    assert ALONE.uid is not None
    assert stranger in server_user_module._find_strangers(ALONE.uid)
    assert read <= {os.geteuid()}
