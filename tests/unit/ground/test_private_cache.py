"""Who may enter the cache, and the directories in it."""

import os
import stat
from pathlib import Path

import pytest

from dballoc.ground import user_directories
from dballoc.ground.errors import UsageError
from dballoc.host import directories
from dballoc.host.unprivileged.server_user import ServerUser

GROUP = 61000


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "above" / "cache"
    monkeypatch.setenv("DBALLOC_CACHE", str(path))
    monkeypatch.setenv("DBALLOC_STORE", str(tmp_path / "store"))
    return path


def read_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_made_for_us_alone_whatever_the_umask(cache: Path) -> None:
    before = os.umask(0)
    try:
        symbols = user_directories.make_in_cache("symbols")
    finally:
        os.umask(before)
    assert (read_mode(cache), read_mode(symbols)) == (0o700, 0o700)


def test_libraries_of_the_store_are_for_servers_of_all_users(cache: Path) -> None:
    before = os.umask(0o077)
    try:
        assert read_mode(user_directories.make_store()) == 0o755
    finally:
        os.umask(before)


def test_what_was_open_to_all_is_no_more(cache: Path) -> None:
    scratch = cache / "scratch"
    scratch.mkdir(parents=True)
    scratch.chmod(0o755)
    user_directories.make_in_cache("scratch")
    assert read_mode(scratch) & 0o067 == 0


@pytest.mark.parametrize(
    ("mode", "remedy"),
    [(0o777, "chmod go-w "), (0o775, "chmod go-w "), (0o1777, "a new directory below it")],
)
def test_a_cache_that_others_may_write_is_refused(cache: Path, mode: int, remedy: str) -> None:
    cache.mkdir(parents=True)
    cache.chmod(mode)
    with pytest.raises(UsageError, match=remedy):
        user_directories.make_cache()


def test_a_link_in_the_cache_is_not_followed(cache: Path, tmp_path: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "scratch").symlink_to(tmp_path)
    before = read_mode(tmp_path)
    with pytest.raises(UsageError, match="not a directory of dballoc's"):
        user_directories.make_in_cache("scratch")
    assert read_mode(tmp_path) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose servers run as another user")
class TestRoots:
    """Root's cache, which the server user passes."""

    def test_the_server_user_alone_passes_to_its_scratch(self, cache: Path) -> None:
        user = ServerUser(GROUP)
        scratch = directories.make_server_scratch(lambda _: None, user)
        for path in (cache, cache / "scratch", scratch):
            assert (read_mode(path), path.stat().st_gid) == (0o710, GROUP), path
            assert path.stat().st_uid == 0
        alone = directories.make_scratch(lambda _: None)
        assert read_mode(alone) == 0o700
        assert read_mode(cache / "scratch") == 0o710, "servers that run still pass"

    def test_a_directory_of_more_than_dballocs_is_not_opened(self, cache: Path) -> None:
        cache.mkdir(parents=True)
        cache.chmod(0o700)
        (cache / ".bashrc").touch()
        directories.make_server_cache(ServerUser(GROUP))
        assert (read_mode(cache), cache.stat().st_gid) == (0o700, 0)

    def test_another_users_is_refused(self, cache: Path) -> None:
        (cache / "symbols").mkdir(parents=True)
        os.chown(cache / "symbols", GROUP, GROUP)
        with pytest.raises(UsageError, match="belongs to another user"):
            user_directories.make_in_cache("symbols")
