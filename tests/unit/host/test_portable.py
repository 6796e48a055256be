"""What the portable file's launcher changes is undone before anything is started."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dballoc.cli import extras
from dballoc.ground.errors import UsageError
from dballoc.host import portable
from dballoc.instruments.ways_in import preload
from dballoc.instruments.ways_in.preload_socket import HEAP_PROBE


@pytest.fixture(autouse=True)
def installed_again() -> Iterator[None]:
    """What a test makes of this process ends with it."""
    yield
    portable.restore_environment({})


def test_the_users_own_variables_come_back() -> None:
    environ = {
        "DBALLOC_PORTABLE": "/tmp/dballoc-portable-0123456789abcdef",
        "DBALLOC_PORTABLE_LD_LIBRARY_PATH": "/opt/server/lib",
        "DBALLOC_PORTABLE_LD_PRELOAD": "",
        "DBALLOC_STORE": "/srv/store",
        "PATH": "/bin",
    }
    portable.restore_environment(environ)
    assert environ == {
        "LD_LIBRARY_PATH": "/opt/server/lib",
        "LD_PRELOAD": "",
        "DBALLOC_CACHE": "/tmp/dballoc-portable-0123456789abcdef/cache",
        "DBALLOC_STORE": "/srv/store",
        "PATH": "/bin",
    }
    assert portable.is_temporary()
    assert portable.is_bundled()


def test_an_installed_one_changes_nothing() -> None:
    environ = {"LD_PRELOAD": "/x.so", "DBALLOC_PORTABLE_OTHER": "1"}
    portable.restore_environment(environ)
    assert environ == {"LD_PRELOAD": "/x.so", "DBALLOC_PORTABLE_OTHER": "1"}
    assert not portable.is_temporary()
    assert not portable.is_bundled()


def test_an_unpacked_one_stays() -> None:
    portable.restore_environment({"DBALLOC_PORTABLE": ""})
    assert portable.is_bundled()
    assert not portable.is_temporary()


def test_no_pip_is_advised_where_it_could_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.MODULES, "bench", ("dballoc_no_such_module",))
    portable.restore_environment({"DBALLOC_PORTABLE": ""})
    with pytest.raises(UsageError, match=r"on another host.*dballoc\[bench\]"):
        extras.require_extra("bench", "dballoc bench")


def test_no_library_is_preloaded_from_a_directory_that_goes_away() -> None:
    portable.restore_environment({"DBALLOC_PORTABLE": str(Path("/tmp/x"))})
    with pytest.raises(UsageError, match="--unpack-to"):
        preload.find_library(HEAP_PROBE)


def test_what_goes_on_after_dballoc_holds_the_directory(tmp_path: Path) -> None:
    assert portable.lock_directory() == []
    portable.restore_environment({"DBALLOC_PORTABLE": str(tmp_path)})
    [lock] = portable.lock_directory()
    watcher = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(watcher, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(lock)
    fcntl.flock(watcher, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(watcher)
