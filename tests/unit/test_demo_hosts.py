"""tools/demo-hosts leaves nothing, also when it is ended early; `ip` is a stand-in here."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "tools" / "demo-hosts"


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
