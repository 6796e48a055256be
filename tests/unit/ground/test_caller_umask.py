"""The caller's umask is for what the caller asked for; everything else is for our user alone."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = """
import os, pathlib, sys
from dballoc.ground.files import caller_umask
if "restrict" in sys.argv:
    caller_umask.remember_and_restrict()
    caller_umask.remember_and_restrict()
pathlib.Path("own").touch()
os.close(os.open("report", os.O_CREAT | os.O_WRONLY, 0o600))
os.chmod("report", caller_umask.readable_mode())
print(oct(caller_umask.get_caller_umask()))
"""


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o027, 0o077])
@pytest.mark.parametrize("words", [["restrict"], []])
def test_what_is_asked_for_has_the_callers_modes(
    tmp_path: Path, umask: int, words: list[str]
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *words],
        cwd=tmp_path,
        umask=umask,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ended.stdout.strip() == oct(umask)
    assert _read_mode(tmp_path / "report") == 0o666 & ~umask
    assert _read_mode(tmp_path / "own") == 0o666 & ~(0o077 if words else umask)


def _read_mode(path: Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)
