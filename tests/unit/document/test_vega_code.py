"""Vega's code in the user's cache: read back only if it is whole and nobody else can have written
it; a cache that cannot be used costs time alone.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st

from dballoc.document import vega_code

CODE = "draw('</script>', 'ä')"
INLINE = "(() => {draw('<\\/script>', 'ä')})();"


class Bundler:
    """Stands in for vl-convert, which takes seconds; counts how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def bundle(self, vl_version: str) -> str:
        """Return the code."""
        assert vl_version == vega_code.VEGA_LITE
        self.calls += 1
        return CODE


@pytest.fixture
def bundler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bundler]:
    """The cache is an empty directory."""
    bundler = Bundler()
    monkeypatch.setenv("DBALLOC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(vl_convert, "javascript_bundle", bundler.bundle)
    vega_code.bundle_vega.cache_clear()
    yield bundler
    vega_code.bundle_vega.cache_clear()


def bundle_as_another_process() -> str:
    """Return the code as a process does that has not had it before."""
    vega_code.bundle_vega.cache_clear()
    return vega_code.bundle_vega()


def kept_file(tmp_path: Path) -> Path:
    """Return the one file in the cache."""
    (path,) = (tmp_path / "cache" / "webpage").iterdir()
    return path


def test_it_is_made_once(bundler: Bundler, tmp_path: Path) -> None:
    assert [bundle_as_another_process() for _ in range(3)] == [INLINE] * 3
    assert bundler.calls == 1
    assert kept_file(tmp_path).stat().st_mode & 0o777 == 0o600
    assert vega_code.VEGA_LITE in kept_file(tmp_path).name


def _damage(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"draw", b"evil"))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def _open_to_others(path: Path) -> None:
    path.chmod(0o622)


def _replace_by_link(path: Path) -> None:
    path.rename(path.parents[1] / "target")
    path.symlink_to("../target")


def _replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _give_away(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    os.chown(path, 65534, 65534)


def _make_large(path: Path) -> None:
    content = b"x" * (8 << 20)
    path.write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)


@pytest.mark.parametrize(
    "spoil",
    [
        _damage,
        _cut,
        _open_to_others,
        _replace_by_link,
        _replace_by_pipe,
        _give_away,
        _make_large,
    ],
)
def test_what_cannot_be_trusted_is_made_again(
    spoil: Callable[[Path], None], bundler: Bundler, tmp_path: Path
) -> None:
    bundle_as_another_process()
    spoil(kept_file(tmp_path))
    assert [bundle_as_another_process() for _ in range(2)] == [INLINE] * 2
    assert bundler.calls == 2
    assert kept_file(tmp_path).is_file()
    assert not kept_file(tmp_path).is_symlink()


def test_a_cache_that_cannot_be_written_costs_time_alone(bundler: Bundler, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no directory")
    assert [bundle_as_another_process() for _ in range(2)] == [INLINE] * 2
    assert bundler.calls == 2


@given(content=st.binary(max_size=200), is_whole=st.booleans())
def test_only_what_was_kept_is_read(
    content: bytes, is_whole: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("kept") / "code.js"
    first_line = hashlib.sha256(content).hexdigest().encode() + b"\n" if is_whole else b""
    path.write_bytes(first_line + content)
    path.chmod(0o600)
    code = vega_code._read_kept(path)
    assert code is None or (is_whole and code.encode() == content)


def test_the_real_bundle_stands_in_a_script_element() -> None:
    code = vega_code.bundle_vega()
    assert "vegaEmbed" in code
    assert "</script" not in code
