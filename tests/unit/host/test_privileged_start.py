"""Whether a program starts privileged, by what its file gives it and who starts it."""

import os
from pathlib import Path

import pytest
from example_option_tables import attribute

from dballoc.campaign.preparation import proved_malloc
from dballoc.ground.errors import UsageError
from dballoc.host.process import privileged_start
from dballoc.host.process.open_in_process_root import FileRights, read_file_rights
from dballoc.host.process.privileged_start import Starter, explain_privilege, parse_capabilities
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.servers.build import Build

SYS_NICE, IPC_LOCK, CHECKPOINT = 1 << 23, 1 << 14, 1 << 40
A_USER, ROOT = Starter(1000, 1000), Starter(0, 0)


@pytest.mark.parametrize("revision", [1, 2, 3])
def test_capabilities_of_each_revision(revision: int) -> None:
    names, effective = parse_capabilities(attribute(SYS_NICE | IPC_LOCK, revision=revision))
    assert (names, effective) == (("cap_ipc_lock", "cap_sys_nice"), True)


def test_capabilities_beyond_32_and_unknown_ones() -> None:
    assert parse_capabilities(attribute(CHECKPOINT | 1 << 60, effective=False)) == (
        ("cap_checkpoint_restore", "capability 60"),
        False,
    )


@pytest.mark.parametrize("raw", [b"", b"\x01", attribute(SYS_NICE)[:12], b"\xff" * 20])
def test_an_attribute_that_is_none(raw: bytes) -> None:
    assert parse_capabilities(raw) == ((), False)


@pytest.mark.parametrize(
    ("mode", "capability", "starter", "cause"),
    [
        (0o755, b"", A_USER, None),
        (0o755, attribute(SYS_NICE), A_USER, "file capability cap_sys_nice"),
        (0o755, attribute(SYS_NICE), None, "file capability cap_sys_nice"),
        (0o755, attribute(SYS_NICE), ROOT, None),
        (0o755, attribute(0, effective=False, inheritable=SYS_NICE), A_USER, None),
        (0o755, attribute(0, inheritable=SYS_NICE), A_USER, "file capabilities"),
        (0o755, attribute(SYS_NICE), Starter(1000, 1000, no_new_privs=True), "file capability cap_sys_nice"),
        (0o755, attribute(SYS_NICE, effective=False), A_USER, "file capability cap_sys_nice"),
        (0o755, attribute(SYS_NICE, effective=False), Starter(1000, 1000, no_new_privs=True), None),
        (0o4755, b"", A_USER, "the set-user-ID bit of its executable"),
        (0o4755, b"", ROOT, None),
        (0o4755, b"", Starter(1000, 1000, no_new_privs=True), None),
        (0o2755, b"", A_USER, "the set-group-ID bit of its executable"),
        (0o2745, b"", A_USER, None),
    ],
)  # fmt: skip
def test_what_makes_a_start_privileged(
    mode: int, capability: bytes, starter: Starter | None, cause: str | None
) -> None:
    rights = FileRights(mode=0o100000 | mode, uid=0, gid=0, capability=capability)
    start = explain_privilege(rights, starter)
    assert (start.cause if start else None) == cause


def test_a_mount_that_gives_nothing() -> None:
    rights = FileRights(mode=0o104755, uid=0, gid=0, capability=attribute(SYS_NICE), nosuid=True)
    assert explain_privilege(rights, A_USER) is None


def test_the_remedy_names_the_capabilities() -> None:
    rights = FileRights(mode=0o755, uid=0, gid=0, capability=attribute(SYS_NICE | IPC_LOCK))
    start = explain_privilege(rights)
    assert start
    assert "AmbientCapabilities=CAP_IPC_LOCK CAP_SYS_NICE" in start.remedy
    assert "every program of this host" in start.remedy


def test_a_file_without_the_attribute(tmp_path: Path) -> None:
    path = tmp_path / "plain"
    path.write_bytes(b"")
    path.chmod(0o755)
    assert read_file_rights(Path("/"), str(path)).capability == b""
    assert privileged_start.read_executable_privilege(path, A_USER) is None
    assert privileged_start.read_executable_privilege(tmp_path / "missing", A_USER) is None


def test_a_build_that_starts_privileged_is_not_measured(tmp_path: Path) -> None:
    server = tmp_path / "mariadbd"
    server.write_bytes(b"")
    build = Build(
        family="mariadb",
        version="10.11.19",
        executable=server,
        basedir=tmp_path,
        share=tmp_path,
        plugins=None,
    )
    proved_malloc._check_start("variant 'glibc'", ServerUser(60706), build)
    try:
        os.setxattr(server, "security.capability", attribute(IPC_LOCK))
    except OSError as error:
        pytest.skip(f"no file capabilities can be set here: {error}")
    if os.statvfs(tmp_path).f_flag & os.ST_NOSUID:
        pytest.skip("no program starts privileged on this file system")
    with pytest.raises(UsageError, match=r"starts privileged \(file capability cap_ipc_lock\)"):
        proved_malloc._check_start("variant 'glibc'", ServerUser(60706), build)
