"""What a campaign of replays knows of its trace: the fact ``replay``. Pure."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from dballoc.ground.numbers import listing, percent


def _check_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("has a character in it that cannot be printed")
    return text


Count = Annotated[int, Field(ge=0, le=10**9)]
Size = Annotated[int, Field(ge=0, lt=2**63)]
# Shares, seconds and standard deviations; infinite where there was too little data.
Amount = Annotated[float, Field(ge=0)]
# What tables and charts show as it is.
Word = Annotated[str, AfterValidator(_check_printable)]

# Why a recording ended before the program did, or anybody asked.
_EARLY = {"limit": "at its limit", "disk": "as the disk was full"}
# Shares below this would be shown as none.
_LEAST_SHARE = 1e-4


@dataclass(frozen=True, kw_only=True)
class RecordedMark:
    """A moment of the trace: ``t`` in seconds since it began, ``truth``: what was measured of the
    recorded process then, in bytes.
    """

    t: float
    name: Word
    truth: dict[Word, Size] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RecordedTrace:
    """A trace in figures. ``program``: its file's name; ``allocator``: the catalogue's name of its
    malloc, or its file's; ``allocator_version``: empty if it is not known; ``settings``: what its
    environment told the malloc, by name, None if that is not known; ``seconds`` as recorded;
    ``peak_live`` in bytes as asked for, ``peak_touched`` those of them on touched pages;
    ``threads_at_once``: the most; ``has_lost_end``: the recording is torn, or its process was
    killed; the rest as in :class:`dballoc.trace.model.RecordingFacts` and ``CompileFacts``.
    """

    program: Word
    allocator: Word
    seconds: Amount
    events: Size
    threads: Count
    peak_live: Size
    from_start: bool
    dropped: Size
    ended_by: Word
    not_seen: Annotated[tuple[Word, ...], Field(max_length=100)] = ()
    marks: Annotated[tuple[RecordedMark, ...], Field(max_length=100_000)] = ()
    peak_touched: Size = 0
    threads_at_once: Size = 0
    unknown_frees: Size = 0
    double_frees: Size = 0
    missed_frees: Size = 0
    has_lost_end: bool = False
    allocator_version: Word = ""
    settings: Annotated[dict[Word, Word], Field(max_length=100)] | None = None

    @property
    def malloc(self) -> str:
        """The malloc that was recorded, as far as it is known, in words."""
        name = " ".join(
            filter(None, [self.allocator or "an unknown malloc", self.allocator_version])
        )
        settings = listing([f"{key}={value}" for key, value in (self.settings or {}).items()])
        return f"{name} with {settings}" if settings else name

    @property
    def flaws(self) -> list[str]:
        """What is wrong with the trace, each in a few words: in every heading and every figure."""
        flaws = []
        if not self.from_start:
            flaws.append("the recording began late")
        if self.dropped:
            share = self.dropped / (self.events + self.dropped)
            words = percent(share, 2) if share >= _LEAST_SHARE else "less than 0.01 %"
            flaws.append(f"{self.dropped:,} events are missing ({words})")
        if self.has_lost_end:
            flaws.append("its end is missing")
        if self.ended_by in _EARLY:
            flaws.append(f"the recording ended early, {_EARLY[self.ended_by]}")
        for kind, number in (
            ("unknown", self.unknown_frees),
            ("double", self.double_frees),
            ("missed", self.missed_frees),
        ):
            if number:
                flaws.append(f"{number:,} {kind} {'free' if number == 1 else 'frees'}")
        return flaws


@dataclass(frozen=True, kw_only=True)
class ReplayFacts(RecordedTrace):
    """The trace, and how it is replayed. ``decaying``: the variants whose malloc gives memory back
    by the clock; ``recorded_variant``: the one whose malloc was recorded; ``window``: the seconds
    of the trace whose peak heap is judged, None: all; the rest as in
    :class:`dballoc.experiment.model.TraceReplay`.
    """

    trace: Word
    sha256: Word
    mode: Literal["fast", "timed"]
    speed: Amount
    touch: Word
    decaying: tuple[Word, ...] = ()
    window: tuple[Amount, Amount] | None = None
    recorded_variant: Word | None = None

    @property
    def keeps_the_clock(self) -> bool:
        """Whether time passes as it did for the recorded process."""
        return self.mode == "timed" and self.speed == 1

    def judges(self, moment: float) -> bool:
        """Whether a moment of the trace, in seconds, is in the stretch that is judged."""
        return self.window is None or self.window[0] <= moment <= self.window[1]
