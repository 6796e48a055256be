"""The last look at a server, taken anew when it is asked for, but no more often than its cost
allows.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from dballoc.explain import explanation
from dballoc.explain.explanation import Explanation
from dballoc.explain.watch import (
    Look,
    WatchPace,
    compute_pause,
    thin_series,
)
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.abandonable.abandonable_work import read_cpu_seconds
from dballoc.host.process.handle import Process

# How many are kept for the verdicts on growth; some tens of KB each.
_MOST_LOOKS = 256


@dataclass(frozen=True, kw_only=True)
class ServerLook:
    """A look at a server, and which process it was."""

    process: Process
    explanation: Explanation


def look_at_server(find_process: Callable[[], Process], look: Look) -> ServerLook:
    """Find a server and take a look at it. Raises Failure if it has ended meanwhile."""
    process = find_process()
    explanation = look(process)
    process.check_running()
    return ServerLook(process=process, explanation=explanation)


@dataclass(frozen=True, kw_only=True)
class ServedLook:
    """``explanation``: None where there is no server to look at, for the ``reason``; ``age``:
    seconds since it was taken; ``cost``: seconds of CPU that it took, and ``pause``: seconds until
    the next one, at the least; ``looks`` and ``failures``: how many so far.
    """

    explanation: Explanation | None
    reason: str
    age: float
    cost: float
    pause: float
    looks: int
    failures: int


class LookCache:
    """``take``: finds the server and takes a look, as :func:`look_at_server`, so that a server that
    was restarted is found again; ``say`` is told, in a line, when there is no server any more, and
    when there is one again. The verdicts of a look are those over all looks since the server
    started.
    """

    def __init__(
        self, take: Callable[[], ServerLook], pace: WatchPace, say: Callable[[str], None]
    ) -> None:
        self._take_look, self._pace, self._say = take, pace, say
        self._looking = threading.Lock()
        self._served: ServedLook | None = None
        self._process: Process | None = None
        self._series: list[Explanation] = []
        self._explanation: Explanation | None = None
        self._reason = "not looked yet"
        self._taken = -float("inf")
        self._cost = self._pause = 0.0
        self._looks = self._failures = 0

    def serve(self) -> ServedLook:
        """Return the last look, or a new one if it is time for that. Who asks meanwhile gets the
        last one, because a server may take minutes to answer; or waits for the first one.
        """
        if self._looking.acquire(blocking=self._served is None):
            try:
                if time.monotonic() - self._taken >= self._pause:
                    self._take()
            finally:
                self._looking.release()
        assert self._served
        return replace(self._served, age=time.monotonic() - self._taken)

    def _take(self) -> None:
        began, cpu, within = time.monotonic(), read_cpu_seconds(), 0.0
        try:
            reading = self._explain()
            within = reading.within
            self._series = thin_series([*self._series, reading], _MOST_LOOKS)
            self._explanation = explanation.judge_series(self._series)
            self._looks += 1
            if self._reason:
                self._say(f"looking at {self._process}")
            self._reason = ""
        except (Failure, UsageError) as error:
            self._forget(str(error))
        except Exception:
            self._forget("the look failed")
            raise
        finally:
            # Of a look that fails, too: it must not be tried more often than one that does not.
            self._cost = read_cpu_seconds() - cpu + within
            self._pause = compute_pause(self._pace.every, self._cost, self._pace.share)
            self._taken = began
            self._served = ServedLook(
                explanation=self._explanation,
                reason=self._reason,
                age=0.0,
                cost=self._cost,
                pause=self._pause,
                looks=self._looks,
                failures=self._failures,
            )

    def _forget(self, reason: str) -> None:
        if reason != self._reason:
            self._say(f"nothing to look at: {reason}")
        self._explanation, self._reason, self._series = None, reason, []
        self._failures += 1

    def _explain(self) -> Explanation:
        look = self._take_look()
        if look.process != self._process:
            self._process, self._series = look.process, []
        return look.explanation
