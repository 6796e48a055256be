"""What one replay of a trace against one malloc measured."""

from dataclasses import dataclass
from typing import Literal

OPERATIONS = ("malloc", "calloc", "aligned", "realloc", "free", "free_sized")


@dataclass(frozen=True, kw_only=True)
class OperationFigures:
    """One kind of call for blocks of one size class.

    ``operation``: one of OPERATIONS; ``largest``: the largest size of the class in bytes, None: no
    limit; of a realloc the new size counts. ``calls``: how many; ``sampled``: how many of them were
    timed, in all ``nanoseconds``. ``buckets``: pairs of a latency in ns (a bucket's upper end, at
    most 12.5 % above its lower one) and the calls in it, ascending. The clock's own cost is not in
    them.
    """

    operation: str
    largest: int | None
    calls: int
    sampled: int
    nanoseconds: int
    buckets: tuple[tuple[int, int], ...]

    def quantile(self, share: float) -> int | None:
        """Return the latency in ns below which that share of the calls was; None if none was
        timed.
        """
        needed = share * self.sampled
        passed = 0
        for upper, count in self.buckets:
            passed += count
            if passed >= needed:
                return upper
        return self.buckets[-1][0] if self.buckets else None


@dataclass(frozen=True, kw_only=True)
class WaitFigures:
    """Waiting of one kind, which is in no other figure: ``count``, ``seconds`` by the clock (the
    sum over the threads), ``cpu`` seconds that it took by itself.
    """

    count: int
    seconds: float
    cpu: float


@dataclass(frozen=True, kw_only=True)
class ReplayMoment:
    """The heap and the live bytes at a mark of the trace; ``time`` in ns of the trace."""

    name: str
    time: int
    heap: int
    live: int


@dataclass(frozen=True, kw_only=True)
class ReplayCurve:
    """The heap and the live bytes over the replay, at most 2,000 points.

    ``time``: ns of the trace that all threads had reached; ``seconds``: since the replay began;
    ``heap``: anonymous bytes without the engine's own, the most of the point's stretch; ``live``:
    bytes asked for and not freed, at that moment.
    """

    time: tuple[int, ...]
    seconds: tuple[float, ...]
    heap: tuple[int, ...]
    live: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ThreadFigures:
    """What one recorded thread's replay did: ``calls`` by OPERATIONS, ``live``: bytes it allocated
    less those it freed. They are in the order of the trace's threads.
    """

    calls: tuple[int, ...]
    live: int


@dataclass(frozen=True, kw_only=True)
class ReplayFigures:
    """The figures of a replay that went to its end. Bytes, seconds; CPU without waiting.

    ``events``: calls of malloc's functions. ``seconds``: from the first to the last. ``cpu``: of
    all threads, for calls and touches. ``malloc_seconds``: time in malloc's functions, estimated
    from the timed calls. ``engine_memory``: the engine's own anonymous memory, which is in no heap.
    ``peak_heap``, ``end_heap`` (after the last event), ``idle_heap`` (after the idle wait; None
    without one). ``peak_live``, ``end_live``: bytes asked for and not freed, the first at the end
    of an epoch. ``live_curve``: the same at the ends of the trace's epochs, exact, as executed:
    pairs of ns of the trace and bytes (at most 2,000). ``clock``: ns that a reading of the clock
    takes. ``lateness``: the most seconds that an event was late in timed mode. ``failed``:
    allocations that returned no memory, the first one of ``failed_size`` bytes.
    """

    events: int
    seconds: float
    cpu: float
    malloc_seconds: float
    minor_faults: int
    major_faults: int
    engine_memory: int
    peak_heap: int
    peak_live: int
    end_heap: int
    end_live: int
    idle_heap: int | None
    failed: int
    failed_size: int
    lateness: float
    clock: int
    handover_waits: WaitFigures
    window_waits: WaitFigures
    operations: tuple[OperationFigures, ...]
    moments: tuple[ReplayMoment, ...]
    curve: ReplayCurve
    live_curve: tuple[tuple[int, int], ...]
    threads: tuple[ThreadFigures, ...]


@dataclass(frozen=True, kw_only=True)
class ReplayFault:
    """Why a replay did not go to its end. ``text``: one line."""

    kind: Literal["oom", "crash", "hang", "no memory", "not proved"]
    text: str


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """One replay: its figures, or its fault. ``bindings``: the file of each of malloc's functions
    as the loader bound it; ``printed``: what the malloc printed, the last 64 KiB.
    """

    figures: ReplayFigures | None
    fault: ReplayFault | None
    bindings: dict[str, str]
    printed: str
