"""Every verb that reads somebody else's results, looks, profiles, traces or archives, from a file system
whose files grow, shrink, answer late or lie about their size: it ends, in one line or with what it is
for, with bounded memory and CPU.
"""

import io
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from example_explanations import look
from example_profiles import heap

from dballoc.explain.output import saved_snapshots
from dballoc.profile.formats import profile_file
from hostile_files import HostileFile, HostileFiles
from peak_memory import watch_peaks

pytestmark = pytest.mark.long

MIB = 2**20
OTHER = 12345
# Seconds in which all end, ten at once on a busy machine.
PATIENCE = 90
# Beyond what the verb takes on harmless files: bytes, and seconds of CPU.
MEMORY, CPU = 100 * MIB, 10.0
WAYS: dict[str, dict[str, object]] = {
    "harmless": {},
    "late": {"delay": 0.02},
    "grows": {"growth": 3 * MIB},
    "shrinks": {"growth": -1000},
    "claims 1 TiB": {"size": 2**40},
    "claims nothing": {"size": 0},
    "endless": {"endless": True},
}
VERBS = {
    "report": ["report", "{0}/a", "--out", "{out}/report"],
    "compare": ["compare", "{0}/a", "{0}/a"],
    "combine": ["combine", "{0}/a", "{0}/a"],
    "deploy": ["deploy", "{0}/a", "jemalloc"],
    "explain --from": ["explain", "--from", "{0}/look.json"],
    "explain --diff": ["explain", "--diff", "{0}/look.json.gz", "{0}/look.json.gz"],
    "profile diff": ["profile", "diff", "{0}/p.profile.json.gz", "{0}/p.profile.json.gz"],
    "trace info": ["trace", "info", "{0}/t.trace"],
    "import": ["import", "{0}/a.csv", "--out", "{out}/import"],
    "fetch": ["fetch", "jemalloc@9.9", "--from", "{0}/a.tar.gz"],
}
# What is read and then refused: the same campaign twice, no trace, and a library that is none.
REFUSED = ("combine", "trace info", "fetch")


@pytest.fixture(scope="module")
def usual() -> dict[str, tuple[float, int]]:
    """Seconds of CPU and bytes that each verb took on harmless files."""
    return {}


def write_files(directory: Path, results: Path) -> dict[str, bytes]:
    """The files by name."""
    for name in ("look.json", "look.json.gz"):
        saved_snapshots.save_snapshot(look(), directory / name)
    profile_file.save_profile(heap(), directory / "p.profile.json.gz")
    (directory / "t.trace").write_bytes(b"DBTRACE1" + bytes(1000))
    (directory / "a.csv").write_text("workload,threads,variant,tps\nro,1,a,100\nro,1,b,110\n")
    with tarfile.open(directory / "a.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("a/lib/libjemalloc.so.2")
        member.size = 100_000
        tar.addfile(member, io.BytesIO(os.urandom(member.size)))
    files = {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
    for path in results.rglob("*"):
        if path.is_file():
            files[f"a/{path.relative_to(results)}"] = path.read_bytes()
    return files


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: the files are another user's")
@pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, marks=() if way in ("harmless", "grows", "endless") else pytest.mark.slow)
        for way in WAYS
    ],
)
def test_every_reader_is_bounded(
    way: str,
    make: Callable[..., Path],
    hostile_files: HostileFiles,
    tmp_path: Path,
    package_path: Path,
    usual: dict[str, tuple[float, int]],
) -> None:
    if hostile_files.server is None:
        pytest.skip("needs /dev/fuse: a pipe stands in in test_foreign_files.py alone")
    results = make("made", blocks=2, threads=[1])
    (tmp_path / "files").mkdir()
    for name, content in write_files(tmp_path / "files", results).items():
        hostile_files.put(name, HostileFile(content=content, owner=OTHER, **WAYS[way]))
    environment = {
        "PYTHONPATH": str(package_path),
        "TMPDIR": str(tmp_path),
        "DBALLOC_CACHE": str(tmp_path / "cache"),
        "DBALLOC_STORE": str(tmp_path / "store"),
    }
    (tmp_path / "out").mkdir()
    with watch_peaks() as peaks:
        began, running = time.monotonic(), {}
        for verb, words in VERBS.items():
            path = tmp_path / f"{verb}.txt"
            with path.open("wb") as output:
                command = [w.format(hostile_files.mount, out=tmp_path / "out") for w in words]
                running[verb] = (
                    path,
                    subprocess.Popen(
                        [sys.executable, "-m", "dballoc", *command],
                        env=os.environ | environment,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=output,
                    ),
                )
                peaks.add(running[verb][1].pid)
        faults = []
        for verb, (path, process) in running.items():
            while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
                if time.monotonic() > began + PATIENCE:
                    process.kill()
                    faults.append(f"{verb} hangs")
                    ended = os.wait4(process.pid, 0)
                    break
                time.sleep(0.05)
            _, status, usage = ended
            process.returncode = os.waitstatus_to_exitcode(status)
            cpu, memory = usage.ru_utime + usage.ru_stime, peaks.peaks[process.pid]
            if way == "harmless":
                usual[verb] = cpu, memory
                if process.returncode and verb not in REFUSED:
                    faults.append(f"{verb}: {path.read_text(errors='replace')}")
            text = path.read_text(errors="replace")
            cpu_before, memory_before = usual.get(verb, (10.0, 300 * MIB))
            if (
                process.returncode not in (0, 1, 2)
                or "Traceback" in text
                or "internal error" in text
                or cpu > cpu_before + CPU
                or memory > memory_before + MEMORY
            ):
                faults.append(f"{verb}: {process.returncode} {cpu:.1f} s {memory >> 20} MiB {text}")
    assert not faults, "\n".join(faults)
