"""Ask the heap probe in a live process."""

import os
from dataclasses import dataclass
from pathlib import Path

from dballoc.ground import readers
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.process import open_in_process_root
from dballoc.host.process.handle import Process
from dballoc.instruments.ways_in import preload_socket
from dballoc.instruments.ways_in.preload_socket import HEAP_PROBE, PreloadSocket
from dballoc.profile.heap.probe_snapshot import Damaged, Snapshot, parse_snapshot

VARIABLE = HEAP_PROBE.variable
# Set to 1, the program leaves a snapshot when it ends.
AT_EXIT_VARIABLE = "DBALLOC_PROBE_AT_EXIT"
# The largest snapshot in a file, bytes; that of full tables is 20 MiB.
_MOST_BYTES = 128 << 20


@dataclass(frozen=True)
class Probe:
    """The probe in a process."""

    place: PreloadSocket

    @property
    def pid(self) -> int:
        """The PID of its process."""
        return self.place.process.pid

    @property
    def loaded_with(self) -> int | None:
        """The sampling interval that it started with, bytes, 0 if it was idle; None if that is not
        known.
        """
        return int(self.place.request[0]) if self.place.request else None

    def status(self) -> dict[str, int]:
        """Return its figures by name: interval, live, peak (bytes, estimated), … . Failure if it
        does not answer.
        """
        return preload_socket.select_figures(preload_socket.parse_status(self.place.ask("status")))

    def set_interval(self, size: int) -> None:
        """Have it sample one in ``size`` bytes from now on, nothing if 0. Failure if it does not
        answer, or refuses.
        """
        self.place.ask(f"interval {size}")

    def reset(self) -> None:
        """Have it reset its sums, of what was allocated and of the time in malloc, but not what is
        alive. Failure if it does not answer.
        """
        self.place.ask("reset")

    def snapshot(self) -> Snapshot:
        """Return a snapshot of its tables. Failure if it does not answer."""
        try:
            return parse_snapshot(self.place.ask("snapshot"))
        except Damaged as error:
            raise Failure(f"{self.place.subject}: {error}") from None


@dataclass(frozen=True)
class SavedSnapshot:
    """The snapshot that a program left at its end (``exec --probe heap --at-exit``), in the place
    of its probe.
    """

    path: Path

    @property
    def pid(self) -> int:
        """The PID that the program had."""
        return self.snapshot().pid

    def status(self) -> dict[str, int]:
        """Return no figures: there is nothing to ask."""
        return {}

    def snapshot(self) -> Snapshot:
        """Return the snapshot. Raises UsageError if the file cannot be read or is not one."""
        try:
            with readers.naming(self.path):
                path = os.fspath(self.path.absolute())
                with open(open_in_process_root.open_file(Path("/"), path), "rb") as file:
                    return parse_snapshot(file.read(_MOST_BYTES))
        except Damaged as error:
            raise UsageError(f"{self.path}: {error}") from None


def find_probe_of_process(process: Process) -> Probe:
    """Find the probe in a process. Raises UsageError, with how to get one, if there is none or we
    may not ask it.
    """
    return Probe(preload_socket.find_preload_of_process(process, HEAP_PROBE))
