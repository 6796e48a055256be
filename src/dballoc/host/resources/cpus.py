"""List the CPUs, and choose some of them: whole cores first."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dballoc.experiment.cpu_list import format_cpus, parse_cpus
from dballoc.ground.errors import UsageError

if TYPE_CHECKING:
    from dballoc.experiment.model import Cpu
import contextlib
from collections.abc import Collection

from dballoc.host.process.handle import Process

SYSTEM = Path("/sys/devices/system/cpu")


def list_available_cpus() -> frozenset[int]:
    """List the CPUs that this process may use."""
    return frozenset(os.sched_getaffinity(0))


def list_siblings(cpu: int) -> frozenset[int]:
    """List the CPUs of the same core, itself included."""
    try:
        return parse_cpus((SYSTEM / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip())
    except (OSError, ValueError):
        return frozenset({cpu})


def choose_cpus(cpu: "Cpu") -> tuple[frozenset[int] | None, frozenset[int] | None]:
    """Choose the CPUs of server and client; None means all. Raises UsageError if a CPU of the
    experiment is not available.
    """
    if cpu.count is not None:
        chosen = _choose_first(cpu.count)
        return chosen, chosen
    return _parse_available("server", cpu.server), _parse_available("client", cpu.client)


def _choose_first(count: int) -> frozenset[int]:
    allowed = list_available_cpus()
    if count > len(allowed):
        raise UsageError(
            f"cpu.count: {count} CPUs requested, {len(allowed)} available ({format_cpus(allowed)})"
        )
    ordered: list[int] = []
    for cpu in sorted(allowed):
        ordered += [c for c in sorted(list_siblings(cpu) & allowed) if c not in ordered]
    return frozenset(ordered[:count])


def _parse_available(side: str, text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    wanted = parse_cpus(text)
    if missing := wanted - list_available_cpus():
        raise UsageError(
            f"cpu.{side}: CPU {format_cpus(missing)} is not here; there are "
            f"{format_cpus(list_available_cpus())}"
        )
    return wanted


_ROUNDS = 20


def move_threads(pid: int, cpus: Collection[int]) -> None:
    """Move every thread of a process and of its descendants to these CPUs, in rounds until one
    finds no new thread: a thread inherits the CPUs of the one that made it, which may not have been
    moved yet. A process that has ended is left alone.
    """
    moved: set[int] = set()
    for _ in range(_ROUNDS):
        new = _list_threads([pid]) - moved
        if not new:
            return
        for thread in new:
            try:
                os.sched_setaffinity(thread, cpus)
            except ProcessLookupError:
                pass
        moved |= new


def _list_threads(pids: list[int]) -> set[int]:
    """List the threads of processes and of their descendants; none of one that has ended."""
    threads: set[int] = set()
    for process in map(Process.at, pids):  # their children are appended meanwhile
        # It, or a thread of it, may have ended meanwhile; the next round lists the others.
        with contextlib.suppress(OSError):
            for thread in process.list_threads():
                threads.add(thread)
                pids += map(int, process.read_text(f"task/{thread}/children").split())
    return threads
