"""An emulated x86-64 machine with 16 CPUs: two NUMA nodes, two threads a core."""

import subprocess
from pathlib import Path

from boot_machine import APPEND, boot_machine

NODES, SOCKETS, CORES, THREADS = 2, 4, 2, 2
CPUS = SOCKETS * CORES * THREADS
# GiB of the machine's memory, and of qemu's with it.
MEMORY, MOST = 4, 6


def list_options(kernel: Path, image: Path, results: Path) -> list[str | Path]:
    """Return qemu's command for the machine. ``results``: the file that what is written to its
    /dev/vport0p1 goes to.

    Sockets lie on the nodes in turns, so that the first CPUs by number are not all on one node. The
    CPU model is one whose kernel knows siblings (leaf 0xB); on qemu's ``max``, an AMD by its name,
    it finds none. thread=single: with a thread for each CPU on a few real ones, kernels lock up.
    """
    numa = [f"node,nodeid={node},memdev=memory{node}" for node in range(NODES)]
    numa += [f"cpu,node-id={socket % NODES},socket-id={socket}" for socket in range(SOCKETS)]
    memory = [
        f"memory-backend-ram,id=memory{node},size={MEMORY // NODES}G" for node in range(NODES)
    ]
    return [
        "qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=single", "-cpu", "Nehalem",
        "-smp", f"{CPUS},sockets={SOCKETS},cores={CORES},threads={THREADS}", "-m", f"{MEMORY}G",
        *(word for text in memory for word in ("-object", text)),
        *(word for text in numa for word in ("-numa", text)),
        "-kernel", kernel, "-initrd", image, "-append", f"console=ttyS0 mitigations=off {APPEND}",
        "-device", "virtio-serial-pci", "-chardev", f"file,id=results,path={results}",
        "-device", "virtserialport,chardev=results",
    ]  # fmt: skip


def run_machine(kernel: Path, image: Path, scratch: Path, longest: float) -> Path:
    """Boot the machine, wait until it has switched itself off, and return the directory with what
    it has sent. ``longest``: seconds that this may take.
    """
    archive, target = scratch / "results.tar", scratch / "results"
    command = list_options(kernel, image, archive)
    print(boot_machine(command, scratch / "console", memory=MOST << 30, longest=longest))
    target.mkdir()
    unpack = ["tar", "--extract", "--no-same-owner", "--file", archive, "--directory", target]
    subprocess.run(unpack, check=True)
    return target
