"""When the loadable function may be installed, and that nothing is written outside of a server's
own file system.
"""

import os
from pathlib import Path

import pytest

from dballoc.evidence.files import plugin_directory
from dballoc.evidence.sql import loadable_function
from dballoc.evidence.sql.loadable_function import LIBRARY, STATS, Installation
from dballoc.host.process.handle import Process
from hostile_files import HostileFile, HostileFiles


@pytest.mark.parametrize(
    ("variables", "members", "says"),
    [
        ({"wsrep_on": "ON"}, 0, "member of a Galera cluster"),
        ({"wsrep_on": "1"}, 0, "member of a Galera cluster"),
        ({"wsrep_on": "OFF"}, 3, "one of 3 members of a replication group"),
        ({"plugin_dir": ""}, 0, "no plugin directory"),
    ],
)
def test_where_it_is_refused(variables: dict[str, str], members: int, says: str) -> None:
    reason = loadable_function.find_refusal(
        {"plugin_dir": "/usr/lib/mysql/plugin/"} | variables, members
    )
    assert reason
    assert says in reason


@pytest.mark.parametrize(
    "variables", [{}, {"wsrep_on": "OFF"}, {"log_bin": "ON", "read_only": "OFF"}]
)
def test_where_it_is_not(variables: dict[str, str]) -> None:
    assert (
        loadable_function.find_refusal({"plugin_dir": "/usr/lib/mysql/plugin/"} | variables, 0)
        is None
    )


def standing(rows: dict[str, str], file: bool, same: bool = True) -> Installation:
    return Installation(directory="/p", rows=rows, file=file, same=same, variables={}, members=0)


def test_what_there_is() -> None:
    assert standing({STATS: LIBRARY}, True).installed
    assert not standing({STATS: LIBRARY}, True, same=False).installed
    assert not standing({STATS: LIBRARY}, False).installed
    assert standing({}, False).absent
    assert not standing({}, True).absent
    assert not standing({STATS: LIBRARY}, False).absent


def test_what_is_going_to_be_done_is_said() -> None:
    assert any(
        "sql_log_bin = 0" in step and "CREATE FUNCTION" in step
        for step in loadable_function.list_install_steps(standing({}, False))
    )
    assert loadable_function.list_remove_steps(standing({}, True)) == [f"remove /p/{LIBRARY}"]
    assert len(loadable_function.list_remove_steps(standing({STATS: LIBRARY}, True))) == 2


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that stands for the root of a container."""
    made = tmp_path / "root"
    (made / "usr/lib/plugin").mkdir(parents=True)
    real = os.open

    def opened(path: str, *how: int, **more: int) -> int:
        return real(made if str(path) == "/proc/1/root" else path, *how, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", opened)
    return made


def test_a_file_is_written_and_removed(root: Path) -> None:
    with plugin_directory.open_directory(Process.open(1), "/usr/lib/plugin/") as directory:
        assert plugin_directory.read_file(directory, "f.so") is None
        plugin_directory.write_file(directory, "f.so", b"one")
        plugin_directory.write_file(directory, "f.so", b"two")
        assert plugin_directory.read_file(directory, "f.so") == b"two"
        assert (root / "usr/lib/plugin/f.so").stat().st_mode & 0o777 == 0o644
        plugin_directory.remove_file(directory, "f.so")
        plugin_directory.remove_file(directory, "f.so")
    assert list((root / "usr/lib/plugin").iterdir()) == []


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("lib", "usr/lib"),
        ("lib", "/usr/lib"),
        ("lib", "../../../usr/lib"),
        ("lib", "./usr/../usr/lib"),
    ],
)
def test_links_are_followed_inside(root: Path, link: str, target: str) -> None:
    (root / link).symlink_to(target)
    with plugin_directory.open_directory(Process.open(1), "/lib/plugin") as directory:
        plugin_directory.write_file(directory, "f", b"x")
    assert (root / "usr/lib/plugin/f").exists()


def test_no_link_leads_out(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (root / "way").symlink_to(tmp_path / "outside")
    (root / "up").symlink_to("../outside")
    for path in ("/way", "/up", "/../outside"):
        with (
            pytest.raises(plugin_directory.InaccessibleDirectory, match="No such file"),
            plugin_directory.open_directory(Process.open(1), path) as directory,
        ):
            plugin_directory.write_file(directory, "f", b"x")
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_link_of_the_files_name_is_not_written_through(root: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    (root / "usr/lib/plugin/f").symlink_to(victim)
    with plugin_directory.open_directory(Process.open(1), "/usr/lib/plugin") as directory:
        plugin_directory.write_file(directory, "f", b"x")
    assert victim.read_text() == "as it was"
    assert not (root / "usr/lib/plugin/f").is_symlink()


def test_a_pipe_of_the_files_name_is_not_waited_for(root: Path) -> None:
    os.mkfifo(root / "usr/lib/plugin/f")
    with (
        pytest.raises(plugin_directory.InaccessibleDirectory, match="not a regular file"),
        plugin_directory.open_directory(Process.open(1), "/usr/lib/plugin") as directory,
    ):
        plugin_directory.read_file(directory, "f")


def test_links_in_a_circle_end(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with (
        pytest.raises(plugin_directory.InaccessibleDirectory, match="symbolic links"),
        plugin_directory.open_directory(Process.open(1), "/a"),
    ):
        pass


def test_what_is_no_directory_is_one_line(root: Path) -> None:
    (root / "file").write_text("")
    with (
        pytest.raises(
            plugin_directory.InaccessibleDirectory, match=r"the server's /file/x: Not a directory"
        ),
        plugin_directory.open_directory(Process.open(1), "/file/x"),
    ):
        pass


def test_a_directory_that_never_answers_is_not_waited_for(
    hostile_files: HostileFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hostile_files.server is None:
        pytest.skip("needs /dev/fuse")
    monkeypatch.setenv("DBALLOC_LOOK_SECONDS", "3")
    path = hostile_files.put("plugin", HostileFile(waits=("getattr",)))
    with (
        pytest.raises(
            plugin_directory.InaccessibleDirectory, match=r"did not answer within 0\.4 s"
        ),
        plugin_directory.open_directory(Process.own(), str(path)),
    ):
        pass
