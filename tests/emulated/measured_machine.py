"""What the emulated machine with many CPUs has sent: its topology, who ran where, results."""

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median_low
from typing import Any

from dballoc.experiment.cpu_list import parse_cpus


@dataclass(frozen=True, kw_only=True)
class SeenProcess:
    """A server or client: where its main thread might run, and how many threads it had at most.
    ``middle``: the Unix time of the middle one of its looks. One look alone tells little of its
    time: under load, to list the processes may take seconds.
    """

    name: str
    pid: int
    middle: float
    threads: int
    cpus: set[frozenset[int]]


@dataclass(frozen=True)
class MeasuredMachine:
    """The files of many_cpus_init.sh."""

    directory: Path

    @cached_property
    def cores(self) -> dict[int, frozenset[int]]:
        """For each CPU the CPUs of its core."""
        return {int(cpu): parse_cpus(core) for cpu, core, _ in self._read_topology()}

    @cached_property
    def nodes(self) -> dict[int, int]:
        """For each CPU its node."""
        return {int(cpu): int(node) for cpu, _, node in self._read_topology()}

    def _read_topology(self) -> Iterator[list[str]]:
        lines = (self.directory / "topology").read_text().splitlines()
        return (line.split() for line in lines)

    @cached_property
    def processes(self) -> list[SeenProcess]:
        """Servers and clients, as they were seen about once a second."""
        boot = float((self.directory / "boot").read_text())
        looks: dict[tuple[str, int], list[tuple[float, int, frozenset[int]]]] = {}
        for line in (self.directory / "placed").read_text().splitlines():
            uptime, name, pid, threads, cpus = line.split()
            look = (boot + float(uptime), int(threads), parse_cpus(cpus))
            looks.setdefault((name, int(pid)), []).append(look)
        return [
            SeenProcess(
                name=name, pid=pid, middle=median_low(moment for moment, _, _ in seen),
                threads=max(threads for _, threads, _ in seen), cpus={cpus for _, _, cpus in seen},
            )
            for (name, pid), seen in looks.items()
        ]  # fmt: skip

    def list_processes(self, name: str, begin: float, end: float) -> list[SeenProcess]:
        """The processes of that name between two moments, in Unix time."""
        return [p for p in self.processes if p.name == name and begin <= p.middle <= end]

    def is_whole_cores(self, cpus: frozenset[int]) -> bool:
        """Whether these CPUs are whole cores."""
        return all(self.cores[cpu] <= cpus for cpu in cpus)

    def list_nodes(self, cpus: frozenset[int]) -> set[int]:
        """The nodes of these CPUs."""
        return {self.nodes[cpu] for cpu in cpus}

    def read(self, run: str, sql: str) -> list[dict[str, Any]]:
        """The rows of a query to a run's results."""
        uri = f"file:{self.directory / run / 'results.sqlite'}?mode=ro"
        with sqlite3.connect(uri, uri=True) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql)]

    def read_fact(self, run: str, key: str) -> Any:
        """A fact of a run's campaign that is kept as JSON."""
        [row] = self.read(run, f"SELECT value FROM campaign WHERE key = '{key}'")
        return json.loads(row["value"])
