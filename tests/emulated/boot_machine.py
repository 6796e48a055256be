"""Boot an emulated machine, and wait until it has switched itself off."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from limited_memory import limited_memory

# Of every emulated machine: no network, nothing on a screen, an end instead of a restart; the
# console, its first serial port, goes to a file.
OPTIONS = ["-display", "none", "-monitor", "none", "-nic", "none", "-no-reboot"]
APPEND = "rdinit=/init panic=-1 loglevel=4"


def boot_machine(
    command: Sequence[str | Path], console: Path, *, memory: int, longest: float
) -> str:
    """Boot the machine of qemu's ``command``, wait for its end, and return its console's text.
    ``memory``: bytes that qemu may have, itself included; ``longest``: seconds. The test fails if
    the machine does not end in time, or shows an error.
    """
    words = [*command, *OPTIONS, "-serial", f"file:{console}"]
    try:
        with limited_memory(memory):
            subprocess.run(words, check=True, timeout=longest)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"it has not ended:\n{read_console(console)[-4000:]}") from None
    text = read_console(console)
    assert "guest: exit 0" in text[-4000:], text[-4000:]
    return text


def read_console(console: Path) -> str:
    """What the machine has put on its console."""
    return console.read_text(encoding="utf-8", errors="replace")
