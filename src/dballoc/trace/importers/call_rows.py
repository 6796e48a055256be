"""Calls that other tools wrote down, gathered into a recording, so that they are compiled like our
own.
"""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dballoc.ground.readers import Unfit
from dballoc.trace.model import (
    CALL_TYPES,
    NONE,
    EventKind,
    Recording,
    RecordingFacts,
    ThreadCalls,
)

# Calls of a file of text: Python reads about a million of them a second.
MOST_CALLS = 50_000_000
MOST_THREADS = 65_536
# ns between two calls of a file without times.
STEP = 1000
# Bytes of the file, of one line.
MOST_BYTES, LONGEST_LINE = 16 * 2**30, 65_536


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call; as ThreadCalls has it."""

    kind: EventKind
    before: int
    after: int
    address: int
    old: int = 0
    size: int = 0
    alignment: int = 0


@dataclass(kw_only=True)
class _ThreadRows:
    """The calls of one thread so far, by column, and when it ended."""

    tid: int
    columns: dict[str, array] = field(
        default_factory=lambda: {name: array("Q") for name in CALL_TYPES}
    )
    ended: int = NONE


@dataclass(kw_only=True)
class CallRows:
    """The calls so far of all threads, and of them those that are ``alive``, by the thread's own
    number in the file.
    """

    count: int = 0
    threads: list[_ThreadRows] = field(default_factory=list)
    alive: dict[int, _ThreadRows] = field(default_factory=dict)

    def add_call(self, tid: int, call: Call) -> None:
        """Add a thread's next call. Raises Unfit if there are too many calls or threads."""
        self.count += 1
        if self.count > MOST_CALLS:
            raise Unfit(f"has more than {MOST_CALLS:,} calls")
        if tid not in self.alive:
            if len(self.threads) == MOST_THREADS:
                raise Unfit(f"has more than {MOST_THREADS:,} threads")
            self.alive[tid] = _ThreadRows(tid=tid)
            self.threads.append(self.alive[tid])
        columns = self.alive[tid].columns
        columns["kind"].append(call.kind)
        columns["before"].append(call.before)
        columns["after"].append(call.after)
        columns["address"].append(call.address)
        columns["old"].append(call.old)
        columns["size"].append(call.size)
        columns["alignment"].append(call.alignment)

    def end_thread(self, tid: int, time: int | None) -> None:
        """End a thread, with its last call if no ``time`` is known; another one may have its number
        from then on.
        """
        if thread := self.alive.pop(tid, None):
            last = thread.columns["after"][-1]
            thread.ended = last if time is None else max(time, last)

    def build_recording(self, source: str, notes: tuple[str, ...]) -> Recording:
        """Return them as a recording; times begin at the first call. Raises Unfit if there is
        none.
        """
        threads: list[ThreadCalls] = []
        for thread in self.threads:
            columns = thread.columns
            columns["site"] = array("Q", bytes(8 * len(columns["kind"])))
            arrays = {name: np.frombuffer(column, np.uint64) for name, column in columns.items()}
            threads.append(make_thread(len(threads), thread.tid, arrays, thread.ended))
        return make_recording(threads, source, notes)


def make_thread(
    number: int, tid: int, arrays: Mapping[str, NDArray], ended: int = NONE
) -> ThreadCalls:
    """Return a thread of columns by name."""
    columns: dict[str, Any] = {
        name: arrays[name].astype(dtype) for name, dtype in CALL_TYPES.items()
    }
    return ThreadCalls(number=number, tid=tid, name="", created_by=NONE, ended=ended, **columns)


def make_recording(threads: list[ThreadCalls], source: str, notes: tuple[str, ...]) -> Recording:
    """Return a recording whose times begin at its first call. Raises Unfit if it has no calls."""
    if not any(len(thread.kind) for thread in threads):
        raise Unfit("has no call of malloc or free")
    begin = min(int(thread.before.min()) for thread in threads if len(thread.before))
    end = max(int(thread.after.max()) for thread in threads if len(thread.after))
    for thread in threads:
        thread.before[:] -= begin
        thread.after[:] -= begin
    threads = [t if t.ended == NONE else replace(t, ended=t.ended - begin) for t in threads]
    facts = RecordingFacts(
        from_start=True,
        dropped=0,
        ended_by="unknown",
        program=source,
        allocator="unknown",
        page_size=4096,
        seconds=(end - begin) / 1e9,
        not_seen=notes,
    )
    return Recording(facts=facts, threads=tuple(threads), touches=(), marks=())
