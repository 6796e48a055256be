"""A process's allocations as arrays: as they were recorded, with addresses, and as a trace, with
object numbers.

A recording has one row for each call in the thread that made it. In a trace every block that was
ever alive is an object with a number, so nothing in it depends on addresses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

# In columns of objects and threads: there is none.
NONE = -1


class EventKind(IntEnum):
    """What a call did. All functions that return a new block are one of the first three: operator
    new is MALLOC, posix_memalign is ALIGNED.
    """

    MALLOC = 1
    CALLOC = 2
    ALIGNED = 3
    REALLOC = 4
    FREE = 5
    FREE_SIZED = 6


# Of what a trace's header holds: how it is checked when it is read.
STRICT = ConfigDict(strict=True, extra="forbid")
Count = Annotated[int, Field(ge=0, lt=2**62)]
Text = Annotated[str, Field(max_length=4096)]
Sentences = Annotated[tuple[Text, ...], Field(max_length=1000)]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Arrays of one length, with an element a row; what is no array holds for all rows."""

    def list_arrays(self) -> dict[str, NDArray]:
        """Return the arrays by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}

    def select(self, rows: NDArray | slice) -> Self:
        """Return some of the rows, by mask, by places or by a slice."""
        columns: dict[str, Any] = {
            name: column[rows] for name, column in self.list_arrays().items()
        }
        return replace(self, **columns)


@dataclass(frozen=True, kw_only=True)
class CallColumns(Columns):
    """Calls as recorded. All arrays have one element a call; their types are in CALL_TYPES.

    ``before`` and ``after`` are ns since the recording began: ``before`` is stamped before a FREE,
    FREE_SIZED or REALLOC, ``after`` after a call that returned a block; where there is no such
    stamp, both are the one that there is. ``address`` is the block returned, or the one freed;
    ``old`` is what REALLOC was given (0: nothing). ``size`` is what was asked for (of FREE_SIZED:
    what was passed; of FREE: 0), ``alignment`` in bytes (0: as malloc). ``site`` is the number of
    the call site of a large block, 0 where none was recorded.
    """

    kind: NDArray[np.uint8]
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    address: NDArray[np.uint64]
    old: NDArray[np.uint64]
    size: NDArray[np.uint64]
    alignment: NDArray[np.uint32]
    site: NDArray[np.uint32]


CALL_TYPES: dict[str, type] = {
    "kind": np.uint8,
    "before": np.int64,
    "after": np.int64,
    "address": np.uint64,
    "old": np.uint64,
    "size": np.uint64,
    "alignment": np.uint32,
    "site": np.uint32,
}


@dataclass(frozen=True, kw_only=True)
class ThreadCalls(CallColumns):
    """The calls of one thread in its own order. Calls that returned no block are not there.
    ``created``: when its creator asked for it, ns since the recording began, not after its first
    call; ``ended``: when it ended, not before its last one. Each is NONE if it is not known; of a
    thread that was alive at the end ``ended`` is NONE too.
    """

    number: int
    tid: int
    name: str
    created_by: int
    created: int = NONE
    ended: int = NONE


@dataclass(frozen=True, kw_only=True)
class TouchSample:
    """Which pages of one large block had been touched when it was freed.

    ``runs`` are pairs of first page and number of pages, in pages of the recorded machine.
    ``rarity``: r if one in 4^r blocks of its site and size class was looked at when it was, so that
    it stands for so many.
    """

    size: int
    site: int
    runs: tuple[tuple[int, int], ...]
    rarity: int = 0


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A moment of the recording with a name: the step of a campaign that begins then.

    ``time`` in ns since the recording began. ``truth`` is what was measured from outside at that
    moment, in bytes: rss, pss, heap, and so on; empty if nothing was.
    """

    __pydantic_config__ = STRICT
    time: Count
    name: Text
    truth: Annotated[
        Mapping[Text, Annotated[int, Field(ge=-(2**62), lt=2**62)]], Field(max_length=1000)
    ]


@dataclass(frozen=True, kw_only=True)
class RecordingFacts:
    """What holds for a whole recording.

    ``from_start``: False if it began late, so that its starting population is unknown.
    ``dropped``: events that are missing. ``ended_by``: ``exit``, ``asked``, ``limit``, ``disk`` or
    ``unknown`` (killed). ``not_seen``: sentences on what the recorder could not see.
    ``allocator``: malloc's library; ``allocator_version`` as it told it itself, empty if it did
    not; ``settings``: the variables of the program's environment that may configure a malloc,
    NAME=VALUE, None if they are not known.
    """

    __pydantic_config__ = STRICT
    from_start: bool
    dropped: Count
    ended_by: Text
    program: Text
    allocator: Text
    page_size: Annotated[int, Field(ge=512, le=2**30)]
    seconds: Annotated[float, Field(ge=0, le=1e10, allow_inf_nan=False)]
    not_seen: Sentences = ()
    allocator_version: Text = ""
    settings: Sentences | None = None


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Everything that a recorder wrote."""

    facts: RecordingFacts
    threads: tuple[ThreadCalls, ...]
    touches: tuple[TouchSample, ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True, kw_only=True)
class EventColumns(Columns):
    """Events of a trace. All arrays have one element an event.

    ``time`` in ns since the trace began: of an allocation when its block was there, of a free when
    it began. REALLOC has ``time`` for its free and ``completed`` for its allocation; elsewhere both
    are equal. ``object`` is the object that the event allocates, NONE if it is a FREE or
    FREE_SIZED; ``freed`` the one that it frees, NONE if it frees none or one that the recording
    does not know. Objects are numbered thread by thread, in the order of their allocation.
    """

    kind: NDArray[np.uint8]
    time: NDArray[np.int64]
    completed: NDArray[np.int64]
    object: NDArray[np.int64]
    freed: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ThreadEvents(EventColumns):
    """The events of one thread of a trace in their order.

    ``created_by`` is the number of the thread that made it, NONE where that is not known. Times
    never run backwards: no event begins before the one before it is completed. ``created``: when it
    was made, not after its first event; ``ended``: when it ended, not before its last. Each is NONE
    if it is not known; of a thread that was alive at the end ``ended`` is NONE too.
    """

    number: int
    name: str
    created_by: int
    created: int = NONE
    ended: int = NONE


@dataclass(frozen=True, kw_only=True)
class Objects(Columns):
    """Every block that was ever alive, by number. All arrays have one element an object.

    ``size`` in bytes as asked for; ``alignment`` in bytes, 0: as malloc; ``allocated_by`` and
    ``freed_by`` are indices into the trace's threads (NONE: never freed); ``touch`` is an index
    into the trace's touch patterns, NONE: all of its pages.
    """

    size: NDArray[np.uint64]
    alignment: NDArray[np.uint32]
    allocated_by: NDArray[np.int32]
    freed_by: NDArray[np.int32]
    touch: NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class CompileFacts:
    """What making the trace met and decided.

    ``resolution``: times are multiples of it, in ns. ``timed``: False if the source had no times,
    so that they say nothing but the order. ``history``: sentences on what was done with the trace
    since.

    The others are counts: ``unknown_frees`` freed a block that was never seen allocated;
    ``double_frees`` one that was free already; ``missed_frees`` were made up where an address was
    handed out that should have been in use; ``clock_steps`` are stamps that ran backwards and were
    moved. Of the large blocks, ``touched_by_site`` got the pages of a sample of their call site and
    size, ``touched_by_size`` of a sample of their size alone, ``touched_by_rule`` of none.
    """

    __pydantic_config__ = STRICT
    resolution: Annotated[int, Field(ge=1, le=10**9)] = 1
    timed: bool = True
    unknown_frees: Count = 0
    double_frees: Count = 0
    missed_frees: Count = 0
    clock_steps: Count = 0
    touched_by_site: Count = 0
    touched_by_size: Count = 0
    touched_by_rule: Count = 0
    history: Sentences = ()


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A process's allocations by object, ready to be analysed or replayed.

    ``touch_patterns`` are runs of pages as in :class:`TouchSample`. A block is never freed before
    it is allocated: not earlier in its own thread, nor at an earlier time in another. So threads
    that wait for each other's blocks, each in its own order, always come to an end.
    """

    facts: RecordingFacts
    threads: tuple[ThreadEvents, ...]
    objects: Objects
    touch_patterns: tuple[tuple[tuple[int, int], ...], ...]
    marks: tuple[Mark, ...]
    compiled: CompileFacts = CompileFacts()
