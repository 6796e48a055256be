"""What is put into a program's environment for the probe, and which programs are refused."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dballoc.cli.profile_verbs.heap import heap_
from dballoc.ground.errors import UsageError
from dballoc.host.process.handle import Process
from dballoc.instruments.ways_in import preload
from dballoc.instruments.ways_in.preload_socket import HEAP_PROBE, find_preload_in_directory
from dballoc.profile.heap import probe_client


@pytest.fixture(autouse=True)
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload, "find_library", lambda kind: Path(f"/opt/{kind.library}"))


def test_the_probe_goes_before_what_is_preloaded() -> None:
    environ = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": "/a.so:/b.so", "HOME": "/h"}
    assert _prepare(["true", "x"], Path("/tmp/p"), environ, 1024) == {
        "PATH": "/usr/bin:/bin",
        "LD_PRELOAD": "/opt/libdballoc_probe.so:/a.so:/b.so",
        "HOME": "/h",
        "DBALLOC_PROBE": "1024:/tmp/p",
    }
    idle = _prepare(["true"], Path("/tmp/p"), {"PATH": "/usr/bin:/bin"}, 1024, is_idle=True)
    assert idle["LD_PRELOAD"] == "/opt/libdballoc_probe.so"
    assert idle["DBALLOC_PROBE"] == "0:/tmp/p"


def _prepare(
    command: list[str], out: Path, environ: dict[str, str], size: int, is_idle: bool = False
) -> dict[str, str]:
    return preload.prepare_launch(HEAP_PROBE, command, out, environ, size, is_idle)[1]


@pytest.mark.parametrize(
    ("command", "out", "interval", "says"),
    [
        ("/nowhere/mariadbd", "/tmp/p", 1024, "/nowhere/mariadbd: there is no such program"),
        ("true", "/tmp/p", 512, "--interval 0.5K: must be from 1K to 1T"),
        ("true", "/tmp/" + "p" * 100, 1024, "too long for a socket in it"),
    ],
)
def test_refusals(command: str, out: str, interval: int, says: str) -> None:
    with pytest.raises(UsageError, match=says.replace("+", r"\+")):
        _prepare([command], Path(out), {"PATH": "/usr/bin:/bin"}, interval)


@pytest.mark.parametrize(
    ("source", "flags", "says"),
    [
        ("#include <stddef.h>\nvoid *malloc(size_t n) { (void)n; return NULL; } int main(void) { return 0; }", ["-rdynamic"], "exports a malloc of its own"),
        ("int main(void) { return 0; }", ["-static"], "a static executable"),
        ("#include <stdlib.h>\nint main(void) { return malloc(1) == NULL; }", [], None),
        # Its own, but for itself alone.
        ("static void *malloc_(void) { return 0; } int main(void) { return malloc_() != 0; }", ["-rdynamic"], None),
    ],
)  # fmt: skip
def test_a_malloc_that_no_preload_can_stand_before(
    tmp_path: Path, source: str, flags: list[str], says: str | None
) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "p.c").write_text(source)
    subprocess.run(
        [compiler, "-fno-builtin", "-o", tmp_path / "p", tmp_path / "p.c", *flags], check=True
    )
    if says is None:
        preload.check_executable(tmp_path / "p")
        return
    with pytest.raises(UsageError, match=says):
        preload.check_executable(tmp_path / "p")
    (tmp_path / "p").chmod(0o4755)


def test_a_set_user_id_program_and_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "true"
    shutil.copy("/bin/true", copy)
    copy.chmod(0o4755)
    preload.check_executable(copy)  # of its own user, it changes nothing
    if os.statvfs(tmp_path).f_flag & os.ST_NOSUID:
        pytest.skip("no program starts privileged on this file system")
    monkeypatch.setattr("os.getuid", lambda: copy.stat().st_uid + 1)
    with pytest.raises(
        UsageError, match=r"starts privileged \(the set-user-ID bit .* ignores LD_PRELOAD"
    ):
        preload.check_executable(copy)
    monkeypatch.undo()
    (tmp_path / "mysqld_safe").write_text("#!/bin/sh\n")
    preload.check_executable(tmp_path / "mysqld_safe")
    (tmp_path / "broken").write_bytes(b"\x7fELF" + b"\xff" * 60)
    with pytest.raises(UsageError, match="not a whole ELF file"):
        preload.check_executable(tmp_path / "broken")


def test_a_process_without_a_probe_is_told_how_to_get_one() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            with pytest.raises(
                UsageError,
                match=r"\(sleep\) has no heap probe; start the server under one: dballoc exec --probe",
            ):
                probe_client.find_probe_of_process(Process.open(process.pid))
        finally:
            handle = Process.open(process.pid)
            process.kill()
    with pytest.raises(UsageError, match=f"{handle}: No such process"):
        probe_client.find_probe_of_process(handle)


def test_nobody_listens(tmp_path: Path) -> None:
    (tmp_path / "12.sock").touch()
    with pytest.raises(UsageError, match="no probe listens there"):
        probe_client.Probe(find_preload_in_directory(tmp_path, HEAP_PROBE))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"by": "moon"}, "--by moon: must be function, user, connection or digest"),
        ({"count": 3}, "--count and --at-peak need --period"),
        ({"pid": 1, "out_dir": Path("/tmp")}, "give --out-dir, or one of"),
        ({"interval": "7"}, "--interval: '7' is not a size"),
        ({"period": "1ms"}, "--period 1ms: must be at least 100ms"),
        ({"pid": 999999999}, "process 999999999: No such process"),
    ],
)
def test_what_profile_heap_refuses(asked: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        heap_(**asked)  # type: ignore[arg-type]
