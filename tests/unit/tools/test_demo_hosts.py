"""tools/demo-hosts leaves nothing, also when it is ended early; `ip` is a stand-in here."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "integration"))

from demo_cluster import load_demo_hosts

DEMO = Path(__file__).resolve().parents[3] / "tools" / "demo-hosts"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_is_ended_removes_its_namespaces(tmp_path: Path, number: int) -> None:
    if os.geteuid() != 0:
        pytest.skip("the demo needs root")
    programs, home, log = tmp_path / "bin", tmp_path / "home", tmp_path / "log"
    programs.mkdir()
    home.mkdir()
    log.touch()
    ip = programs / "ip"
    # A node takes its time to start.
    ip.write_text(
        f'#!/bin/sh\necho "$*" >> {log}\ncase "$*" in *\' start \'*) exec sleep 60;; esac\n'
    )
    ip.chmod(0o755)
    demo = subprocess.Popen(
        [sys.executable, DEMO],
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(home)},
    )
    try:
        deadline = time.monotonic() + 60
        while " start " not in log.read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        demo.send_signal(number)
        # As where the kernel and the shell each send one.
        while " del " not in log.read_text() and demo.poll() is None:
            time.sleep(0.001)
        demo.send_signal(number)
        assert demo.wait(60) == 130
    finally:
        demo.kill()
        demo.wait()
    commands = log.read_text().splitlines()
    made = [words.split()[2] for words in commands if words.startswith("netns add")]
    removed = [words.split()[2] for words in commands if words.startswith("netns del")]
    assert len(made) == 3
    assert made == removed
    assert not list(home.iterdir())


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (subprocess.TimeoutExpired("ray", 120), "node 1 has not started within 120 s"),
        (subprocess.CalledProcessError(1, "ray"), "node 1 does not start"),
    ],
)
def test_a_node_that_does_not_start_is_said_in_a_line_and_is_status_2(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    error: Exception,
    words: str,
) -> None:
    demo = load_demo_hosts()

    def run(*_: Any, stdout: Any, **__: Any) -> None:
        stdout.write(b"no room")
        raise error

    monkeypatch.setattr(demo.subprocess, "run", run)
    cluster = demo.Cluster(tmp_path, tmp_path, demo.SERVERS, demo.HEALTH)
    assert cluster.environment["RAY_memory_monitor_refresh_ms"] == "0"
    with pytest.raises(SystemExit) as ended:
        cluster.start_node(1, demo.SERVER)
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"demo-hosts: {words}:\nno room\n"


def test_what_a_killed_demo_left_is_removed_by_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its namespaces have its PID in their names; those of one that lives are left alone."""
    gone, log = 2**22 + 1, tmp_path / "log"  # beyond all PIDs
    names = [f"dballoc{gone}-0", f"dballoc{gone}-1 (id: 3)", f"dballoc{os.getpid()}-0", "mine-0"]
    listed = "".join(f"{name}\\n" for name in names)
    ip = tmp_path / "ip"
    ip.write_text(f'#!/bin/sh\necho "$*" >> {log}\n[ "$2" = list ] && printf "{listed}"\nexit 0\n')
    ip.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    demo = load_demo_hosts()
    assert demo.list_abandoned() == [f"dballoc{gone}-0", f"dballoc{gone}-1"]
    demo.remove_namespaces(demo.list_abandoned())
    removed = [line for line in log.read_text().splitlines() if " del " in line]
    assert removed == [f"netns del dballoc{gone}-0", f"netns del dballoc{gone}-1"]
