"""How a trace is replayed, and what it may take at most."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from dballoc.ground.errors import UsageError

Touch = Literal["recorded", "all", "first", "none"]

# Bytes and counts that a trace of a real server stays below, and this machine can give.
_THREADS_ALIVE = 4096
_THREADS = 100_000
_LIVE_BYTES = 64 << 30
_SECONDS = 24 * 3600.0


@dataclass(frozen=True, kw_only=True)
class ReplayLimits:
    """What a replay may take: a plan that asks for more is refused before the start.

    ``threads``: in all; ``threads_alive``: at once; ``live_bytes``: asked for and not yet freed, at
    once; ``memory``: bytes of the memory cgroup, None: no cgroup; ``needs_cgroup``: False: where
    none can be made the replay runs without one; ``seconds``: of the run, after which it is ended
    as a fault.
    """

    threads: int = _THREADS
    threads_alive: int = _THREADS_ALIVE
    live_bytes: int = _LIVE_BYTES
    memory: int | None = None
    needs_cgroup: bool = True
    seconds: float = _SECONDS


@dataclass(frozen=True, kw_only=True)
class ReplaySettings:
    """How to replay.

    ``speed``: times as fast as recorded (timed mode); None: as fast as the order allows.
    ``window``: seconds of trace time that a thread may be ahead of the slowest one, 0: any; None:
    two epochs of the plan, which is 10 ms, less for a trace that is dense.
    ``touch``: which pages of a new block are written: as recorded, all, the first one, none.
    ``idle``: seconds to wait after the last event. ``sample_every``: one in so many calls is timed,
    on average.
    """

    speed: float | None = None
    window: float | None = None
    touch: Touch = "recorded"
    idle: float = 0.0
    sample_every: int = 64
    limits: ReplayLimits = field(default_factory=ReplayLimits)

    def __post_init__(self) -> None:
        """Raises UsageError for what cannot be."""
        if self.speed is not None and not 0.001 <= self.speed <= 1e6:
            raise UsageError(f"--speed {self.speed}: give a number from 0.001 to 1000000")
        if self.touch not in get_args(Touch):
            raise UsageError(f"--touch {self.touch}: it is one of {', '.join(get_args(Touch))}")
        if not 0 <= self.idle <= _SECONDS:
            raise UsageError(f"--idle {self.idle}: give seconds from 0 to {_SECONDS:.0f}")
        if self.window is not None and not 0 <= self.window <= _SECONDS:
            raise UsageError(f"--window {self.window}: give seconds from 0 to {_SECONDS:.0f}")
