"""An attempt at a block that hosts have: what they have said of it so far, and what they may say
next. Whoever says something else is wrong or hostile.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dballoc.campaign.elsewhere.block_messages import MOST_FILE_BYTES, MOST_FILES, MOST_NOTICES
from dballoc.campaign.elsewhere.place_blocks import Host, HostPair
from dballoc.experiment.schedule import Slot
from dballoc.ground import readers
from dballoc.store.rows import BlockPlace

# A load is stopped once, and once more where a trial is given up meanwhile.
_MOST_STOPS = 10


@dataclass(kw_only=True)
class LoadsUnderWay:
    """What server and client host of a block have said to each other. ``number``: of the last load;
    ``is_open``: whether that has not ended; ``stops``: how often it was stopped.
    """

    is_ready: bool = False
    number: int = 0
    is_open: bool = False
    stops: int = 0

    def begin(self, number: int) -> None:
        """Note that a load is asked for. Raises Unfit unless the client is ready and runs none."""
        if not self.is_ready or self.is_open or number <= self.number:
            raise readers.Unfit("it asked for a load out of turn")
        self.number, self.is_open, self.stops = number, True, 0

    def stop(self, number: int) -> None:
        """Note that the last load is to end, which may have happened meanwhile. Raises Unfit for
        another, or too often.
        """
        self.stops += 1
        if number != self.number or self.stops > _MOST_STOPS:
            raise readers.Unfit("it stopped a load that is not under way")

    def end(self, number: int) -> None:
        """Note that the client has ended a load. Raises Unfit if it runs none of that number."""
        if not self.is_open or number != self.number:
            raise readers.Unfit("it answered of a load that it was not asked for")
        self.is_open = False

    def become_ready(self) -> None:
        """Note that the client can begin. Raises Unfit if it could already."""
        if self.is_ready:
            raise readers.Unfit("it is a client that began twice")
        self.is_ready = True


@dataclass(kw_only=True)
class BlockUnderWay:
    """An attempt at a block that hosts have. ``trials``: by their position; ``given_at``,
    ``latest_end``: when it began, and must have ended, by the driver's clock; ``started``: Unix
    time of the trial under way, at its ``position``; ``finished``: positions of the stored ones;
    ``files``, ``file_bytes``: of the trial under way, below ``directory``.
    """

    pair: HostPair
    key: BlockPlace
    trials: Mapping[int, Slot]
    given_at: float
    latest_end: float
    began: float = field(default_factory=time.monotonic)
    position: int | None = None
    started: float = 0.0
    finished: set[int] = field(default_factory=set)
    file_bytes: int = 0
    files: set[str] = field(default_factory=set)
    directory: Path | None = None
    loads: LoadsUnderWay = field(default_factory=LoadsUnderWay)
    notices: int = 0

    @property
    def host(self) -> Host:
        """The one that runs the block, and its servers."""
        return self.pair.server

    def begin_trial(self, position: int) -> Slot:
        """Note that a trial begins, and return it. Raises Unfit if the block has none there, or had
        it, or if another is under way.
        """
        trial = self.trials.get(position)
        if trial is None or position in self.finished:
            raise readers.Unfit(f"it began a trial {position} that its block does not have")
        if self.position is not None:
            raise readers.Unfit("it began a trial while another was under way")
        self.position, self.started = position, time.time()
        self.file_bytes, self.directory = 0, None
        self.files = set()
        return trial

    @property
    def trial_under_way(self) -> Slot | None:
        """The trial that has begun and has no rows yet."""
        return None if self.position is None else self.trials[self.position]

    def check_position(self, position: int) -> Slot:
        """Return the trial under way. Raises Unfit if an answer is of another."""
        trial = self.trial_under_way
        if trial is None or position != self.position:
            raise readers.Unfit(f"it answered of trial {position}, which is not under way")
        return trial

    def begin_load(self, number: int) -> None:
        """Note that the trial under way asks for a load. Unfit out of turn."""
        if self.position is None:
            raise readers.Unfit("it asked for a load out of turn, before a trial")
        self.loads.begin(number)

    def count_file(self, name: str, size: int) -> None:
        """Count a piece of a raw file of the trial under way. Raises Unfit for too much."""
        self.file_bytes += size
        self.files.add(name)
        if self.file_bytes > MOST_FILE_BYTES or len(self.files) > MOST_FILES:
            raise readers.Unfit("it sent more files of a trial than there can be")

    def count_notice(self) -> None:
        """Count a sentence for the user. Raises Unfit for too many."""
        self.notices += 1
        if self.notices > MOST_NOTICES:
            raise readers.Unfit(f"it sent more notices than {MOST_NOTICES:,} for one block")
