"""Ask the recorder in a live process."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dballoc.ground.errors import Failure, UsageError
from dballoc.host.process.handle import Process
from dballoc.instruments.ways_in import preload_socket
from dballoc.instruments.ways_in.preload_socket import RECORDER, PreloadSocket

# A mark's name, which may contain a workload's; and the names of its figures.
_NAME = re.compile(r"[A-Za-z0-9_.:/@+=-]{1,100}")
_FIGURE = re.compile(r"[A-Za-z0-9_.:/@-]{1,100}")
# The longest line that a recorder reads, less its end.
_LONGEST_LINE = 1000


@dataclass(frozen=True, kw_only=True)
class RecorderStatus:
    """``events`` and ``bytes``: in the file so far; ``dropped``: events that were lost; ``limit``:
    what a file may take, bytes; ``ended_by``: why the last recording ended, empty while one goes
    on or none has been. ``file``: the last one, as its process names it.
    """

    is_recording: bool
    events: int
    dropped: int
    bytes: int
    threads: int
    seconds: float
    limit: int
    ended_by: str
    file: str


@dataclass(frozen=True)
class RecorderMemory:
    """Resident bytes: of the recorder's ``buffers``, and of those ``blocks`` of the program's that
    it serves from its own mappings; ``sizes``: what these were asked for.
    """

    buffers: int
    blocks: int
    sizes: int


@dataclass(frozen=True)
class Recorder:
    """The recorder in a process."""

    place: PreloadSocket

    def status(self) -> RecorderStatus:
        """Return how far it is. Raises Failure if it does not answer."""
        words = preload_socket.parse_status(self.place.ask("status"))
        figures = preload_socket.select_figures(words)
        try:
            ended_by = words["ended_by"]
            return RecorderStatus(
                is_recording=bool(figures["recording"]),
                events=figures["events"],
                dropped=figures["dropped"],
                bytes=figures["bytes"],
                threads=figures["threads"],
                seconds=figures["milliseconds"] / 1000,
                limit=figures["limit"],
                ended_by="" if ended_by == "nothing" else ended_by,
                file=words["file"],
            )
        except KeyError as error:
            raise Failure(f"{self.place.subject} does not say its {error.args[0]}") from None

    def measure_memory(self) -> RecorderMemory:
        """Return its memory in the process. Raises Failure if it does not answer."""
        words = preload_socket.parse_status(self.place.ask("memory"))
        figures = preload_socket.select_figures(words)
        try:
            return RecorderMemory(
                buffers=figures["buffers"], blocks=figures["blocks"], sizes=figures["sizes"]
            )
        except KeyError as error:
            raise Failure(f"{self.place.subject} does not say its {error.args[0]}") from None

    def start(self) -> None:
        """Have it begin a recording. Raises Failure if it cannot, or records already."""
        self.place.ask("start")

    def stop(self) -> None:
        """Have it end the recording, with everything written. Raises Failure if there is none."""
        self.place.ask("stop")

    def set_limit(self, limit: int) -> None:
        """Set what the next recording's file may take, bytes; those after it have what the program
        was started with.
        """
        self.place.ask(f"limit {limit}")

    def mark(self, name: str, truth: Mapping[str, int]) -> None:
        """Name this moment in the recording, with what was measured from outside, in bytes. Raises
        UsageError if the name has other than letters, digits and ``_.:/@+=-``; Failure if nothing
        is being recorded.
        """
        line = " ".join(["mark", name, *(f"{key}={value}" for key, value in truth.items())])
        named = _NAME.fullmatch(name) and all(map(_FIGURE.fullmatch, truth))
        if not named or len(line) > _LONGEST_LINE:
            raise UsageError(f"{name!r}: no name for a mark, or too many figures")
        self.place.ask(line)


def find_recorder_of_process(process: Process) -> Recorder:
    """Find the recorder in a process. UsageError, with how to get one, if there is none or we may
    not ask it.
    """
    return Recorder(preload_socket.find_preload_of_process(process, RECORDER))
