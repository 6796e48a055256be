"""Boot an emulated aarch64 machine, and take what it puts on its console."""

import json
import subprocess
from pathlib import Path
from typing import Any

# Bytes of the machine's memory, and seconds until it must have switched itself off. It takes four
# minutes on two CPUs that have nothing else to do.
MEMORY = 2 << 30
LONGEST = 1800


def boot_machine(kernel: Path, image: Path, console: Path) -> dict[str, Any]:
    """Boot it, wait for its end, and return its results by name. The test fails if it does not end
    in time, or shows an error.
    """
    command = [
        "qemu-system-aarch64", "-machine", "virt", "-cpu", "max,pauth-impdef=on,sve=off",
        "-accel", "tcg,thread=multi", "-smp", "2", "-m", str(MEMORY >> 20), "-kernel", kernel,
        "-initrd", image, "-append", "console=ttyAMA0 rdinit=/init panic=-1 loglevel=4",
        "-display", "none", "-monitor", "none", "-nic", "none", "-no-reboot",
        "-serial", f"file:{console}",
    ]  # fmt: skip
    try:
        subprocess.run(command, check=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"it has not ended:\n{read_tail(console)}") from None
    results = parse_results(console.read_text(encoding="utf-8", errors="replace"))
    assert "guest: exit 0" in read_tail(console), read_tail(console)
    return results


def parse_results(text: str) -> dict[str, Any]:
    """Parse the lines ``result NAME JSON`` of a console."""
    words = [line.split(maxsplit=2) for line in text.splitlines() if line.startswith("result ")]
    return {name: json.loads(value) for _, name, value in words}


def read_tail(console: Path) -> str:
    """The last lines of a console."""
    return console.read_text(encoding="utf-8", errors="replace")[-4000:]
