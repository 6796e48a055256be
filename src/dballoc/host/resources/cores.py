"""List the machine's cores: their CPUs, NUMA node, package and speed, from sysfs
(Documentation/ABI/testing/sysfs-devices-system-cpu, and stable/sysfs-devices-node).

A container's view may be incomplete or not the kernel's own (lxcfs), so whatever a file lacks or
says wrongly becomes the usual: a core of one CPU, node 0, package 0, speed unknown.
"""

import itertools
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dballoc.experiment.cpu_list import parse_cpus
from dballoc.ground import readers

SYSTEM = Path("/sys/devices/system/cpu")
# Bytes of a file of a CPU's; the kernel's own have a page at most.
_MOST_BYTES = 4096
# Entries of a CPU's directory that are looked at; the kernel's has some thirty.
_MOST_ENTRIES = 1000
# Cores of which one is slower by less than this share are alike: some of a CPU's cores may boost
# higher than others (by up to a tenth on those seen), efficiency cores are slower by a quarter at
# least.
_ALIKE = 0.15


@dataclass(frozen=True, kw_only=True)
class Core:
    """A core: those of its ``cpus`` (hardware threads) that we may use, its NUMA ``node``, its
    ``package``, and its ``speed`` (capacity or top frequency; 0: not known).
    """

    cpus: frozenset[int]
    node: int = 0
    package: int = 0
    speed: int = 0


def list_cores(allowed: frozenset[int]) -> list[Core]:
    """List the cores that these CPUs are of, in the order of their lowest CPU."""
    cores: list[Core] = []
    remaining = set(allowed)
    for cpu in sorted(allowed):
        if cpu in remaining:
            siblings = (_list_siblings(cpu) & remaining) | {cpu}
            remaining -= siblings
            cores.append(
                Core(
                    cpus=siblings,
                    node=_read_node(cpu),
                    package=_read_number(cpu, "topology/physical_package_id"),
                    speed=_read_speed(cpu),
                )
            )
    return cores


def _list_siblings(cpu: int) -> frozenset[int]:
    """List the CPUs of the same core, as the kernel tells them."""
    try:
        return parse_cpus(_read_text(cpu, "topology/thread_siblings_list"))
    except ValueError:
        return frozenset()


def _read_node(cpu: int) -> int:
    """Read the NUMA node: sysfs has a link to it in the CPU's directory."""
    try:
        with os.scandir(SYSTEM / f"cpu{cpu}") as entries:
            names = [entry.name for entry in itertools.islice(entries, _MOST_ENTRIES)]
    except OSError:
        return 0
    nodes = (name.removeprefix("node") for name in names if name.startswith("node"))
    return min((int(digits) for digits in nodes if _is_number(digits)), default=0)


def _read_speed(cpu: int) -> int:
    names = ("cpu_capacity", "cpufreq/cpuinfo_max_freq")
    return next((speed for name in names if (speed := _read_number(cpu, name))), 0)


def _read_number(cpu: int, name: str) -> int:
    """Read a number; 0 where there is none, or a negative one, which stands for unknown."""
    text = _read_text(cpu, name)
    return int(text) if _is_number(text) else 0


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 18


def _read_text(cpu: int, name: str) -> str:
    """Read a file of a CPU's; empty where it cannot be read."""
    try:
        return readers.text(SYSTEM / f"cpu{cpu}" / name, _MOST_BYTES).strip()
    except readers.Unfit:
        return ""


def rank_speeds(cores: Iterable[Core]) -> dict[int, int]:
    """Return the kind of core by its speed: 0 for the fastest and those alike, 1 for the next ones,
    and so on. Pure.
    """
    ranks: dict[int, int] = {}
    fastest = math.inf
    for speed in sorted({core.speed for core in cores}, reverse=True):
        if speed < fastest * (1 - _ALIKE):
            fastest = speed
            ranks[speed] = len(set(ranks.values()))
        else:
            ranks[speed] = max(ranks.values())
    return ranks
