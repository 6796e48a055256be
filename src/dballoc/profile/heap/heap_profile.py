"""Heap profiles from the probe's snapshots: estimates with their errors, by call stack, function or
owner, and growth. Pure.

A block that was sampled with the probability p stands for 1/p blocks (Horvitz and Thompson). The
estimates are unbiased, and their variances, (1 - p)/p² times the square of what is summed, add up,
for blocks are sampled each on its own.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dballoc import readers
from dballoc.profile import frame_kinds
from dballoc.profile.amounts import amount
from dballoc.profile.heap.probe_snapshot import Block, Snapshot, Stack
from dballoc.profile.model import Frame, Profile, Sample, Value
from dballoc.profile.profile_tables import VARIANCE
from dballoc.profile.symbols import cpp_names
from dballoc.profile.symbols.symbols import Mapped

# What a table or a graph is of by default.
LIVE, ALLOCATED, TIME, STALLED = "live", "allocated", "time", "stalled"
_VALUES = (
    Value(LIVE, "bytes", "live bytes"),
    Value(LIVE + VARIANCE, "bytes²", "variance of live bytes"),
    Value("live_objects", "objects", "live blocks"),
    Value("live_objects" + VARIANCE, "objects²", "variance of live blocks"),
    Value(ALLOCATED, "bytes", "bytes allocated"),
    Value(ALLOCATED + VARIANCE, "bytes²", "variance of bytes allocated"),
    Value("allocations", "objects", "blocks allocated"),
    Value(TIME, "seconds", "time in malloc and free"),
    Value(STALLED, "seconds", "stalled in malloc and free"),
)

# A line of /proc/PID/maps (proc_pid_maps(5)).
_LINE = re.compile(
    r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) ([-rwxsp]{4}) ([0-9a-f]{1,16}) \S+ \d+ *(.*)"
)

Stacks = Mapping[int, tuple[Frame, ...]]


@dataclass(kw_only=True)
class Estimate:
    """``bytes`` and ``objects`` with the variances of both, from so many ``samples``."""

    bytes: float = 0.0
    variance: float = 0.0
    objects: float = 0.0
    objects_variance: float = 0.0
    samples: int = 0

    @property
    def error(self) -> float:
        """One standard error of the bytes."""
        return math.sqrt(self.variance)

    @property
    def objects_error(self) -> float:
        """One standard error of the objects."""
        return math.sqrt(self.objects_variance)

    def add(self, block: Block, sign: int = 1) -> None:
        """A sampled block; ``sign`` -1: one that is gone."""
        p = block.chance
        spread = (1 - p) / (p * p)
        self.bytes += sign * block.usable / p
        self.variance += block.usable**2 * spread
        self.objects += sign / p
        self.objects_variance += spread
        self.samples += 1


@dataclass(frozen=True)
class Row:
    """Of a function or an owner: what is alive, and what was allocated, bytes, since the probe's
    sums were reset.
    """

    name: str
    module: str
    live: Estimate
    allocated: float = 0.0


@dataclass(frozen=True)
class Spent:
    """Of a function: seconds in malloc and free, estimated; ``stalled``: more, in calls that
    waited.
    """

    name: str
    module: str
    seconds: float
    stalled: float


@dataclass(frozen=True)
class Grown:
    """Of a function: ``change`` between two snapshots; ``after``: what is alive now, bytes."""

    name: str
    module: str
    change: Estimate
    after: float

    @property
    def sure(self) -> float:
        """What it has grown at least, two standard errors off: what the table is ordered by, so
        that chance is not first.
        """
        return self.change.bytes - 2 * self.change.error


def mappings(snapshot: Snapshot) -> list[Mapped]:
    """The process's executable mappings, with the build-ids that it has in its memory."""
    found = []
    first = ""
    for line in readers.rows(snapshot.maps):
        parts = _LINE.fullmatch(line)
        if parts is None or int(parts[1], 16) >= int(parts[2], 16):
            continue
        path = parts[5]
        first = first or path  # the executable, which the loader has under an empty name
        if "x" in parts[3]:
            said = snapshot.build_ids.get(path.removesuffix(" (deleted)"))
            build_id = said or (snapshot.build_ids.get("", "") if path == first else "")
            found.append(
                Mapped(int(parts[1], 16), int(parts[2], 16), int(parts[4], 16), path, build_id)
            )
    return found


def frames(
    stacks: Mapping[int, Stack], resolve: Callable[[int], tuple[Frame, ...]]
) -> dict[int, tuple[Frame, ...]]:
    """Each stack's functions, the thread's start first. ``resolve``: of an address; return
    addresses are looked up one before, for a call may be a function's last instruction.
    """
    found = {}
    for number, stack in stacks.items():
        found[number] = tuple(
            frame for address in reversed(stack.addresses) for frame in resolve(address - 1)
        )
    return found


def whole(blocks: Iterable[Block]) -> Estimate:
    """All blocks together."""
    total = Estimate()
    for block in blocks:
        total.add(block)
    return total


def profile(snapshot: Snapshot, stacks: Stacks, title: str, facts: Mapping[str, str]) -> Profile:
    """A sample a call stack."""
    live: dict[int, Estimate] = defaultdict(Estimate)
    for block in snapshot.blocks:
        live[block.stack].add(block)
    spent = time_by_stack(snapshot)
    samples = []
    for number, stack in snapshot.stacks.items():
        mine = live.get(number, Estimate())
        if mine.samples == 0 and stack.samples == 0 and number not in spent:
            continue
        values = (
            mine.bytes,
            mine.variance,
            mine.objects,
            mine.objects_variance,
            stack.bytes,
            stack.variance,
            stack.objects,
            *spent.get(number, (0.0, 0.0)),
        )
        samples.append(
            Sample(stacks[number] or (Frame("[no stack]", named=False),), values, stack.truncated)
        )
    about = {
        "sampled": f"one in {amount(snapshot.interval, 'bytes')}"
        if snapshot.interval
        else "not any more",
        "live blocks sampled": f"{len(snapshot.blocks):,}",
        "stacks that reach a thread's start": f"{snapshot.complete:.2%}",
        "allocated since": f"{snapshot.now - snapshot.reset:.0f} s before",
        "samples without room": f"{snapshot.lost_blocks + snapshot.lost_stacks}",
        **facts,
    }
    return Profile(
        title=title, values=_VALUES, samples=samples, taken=snapshot.taken, seconds=0.0, facts=about
    )


def time_by_stack(snapshot: Snapshot) -> dict[int, tuple[float, float]]:
    """Of each stack whose calls were timed: estimated seconds in malloc and free without stalls,
    and in stalls, since the probe's sums were reset. A timed call stands for
    :attr:`Snapshot.period` calls; those that did not stall had their stack taken one in
    :attr:`Snapshot.stacks_period` times.
    """
    found: dict[int, tuple[float, float]] = {}
    for waits in snapshot.waits:
        short, stalled = found.get(waits.stack, (0.0, 0.0))
        each = snapshot.period / 1e9
        found[waits.stack] = (
            short + waits.nanoseconds * each * snapshot.stacks_period,
            stalled + waits.stalled * each,
        )
    return found


def time_by_function(snapshot: Snapshot, owner: Mapping[int, Frame]) -> list[Spent]:
    """The dominant functions by their time in malloc and free, stalls included, the most first.
    ``owner``: of each stack, by
    :func:`dominant`.
    """
    seconds: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for number, times in time_by_stack(snapshot).items():
        for i, part in enumerate(times):
            seconds[_key(owner[number])][i] += part
    rows = [Spent(*key, short, stalled) for key, (short, stalled) in seconds.items()]
    return sorted(rows, key=lambda row: (-row.seconds - row.stalled, row.name))


def dominant(stack: Sequence[Frame], wrappers: Sequence[str]) -> Frame:
    """The function that a stack's memory is attributed to: the innermost that has a name and does
    not only hand it on.
    """
    for frame in reversed(stack):
        if frame.named and frame_kinds.kind(frame) != "malloc":
            label = cpp_names.short(frame.function)
            if not any(fnmatchcase(label, pattern) for pattern in wrappers):
                return frame
    return stack[-1] if stack else Frame("[no stack]", named=False)


def by_function(snapshot: Snapshot, owner: Mapping[int, Frame]) -> list[Row]:
    """The dominant functions, the most alive first. ``owner``: of each stack, by
    :func:`dominant`.
    """
    live: dict[tuple[str, str], Estimate] = defaultdict(Estimate)
    allocated: dict[tuple[str, str], float] = defaultdict(float)
    for block in snapshot.blocks:
        live[_key(owner[block.stack])].add(block)
    for number, stack in snapshot.stacks.items():
        if stack.samples:
            allocated[_key(owner[number])] += stack.bytes
    rows = [
        Row(*key, live.get(key, Estimate()), allocated.get(key, 0.0))
        for key in live.keys() | allocated.keys()
    ]
    return sorted(rows, key=lambda row: (-row.live.bytes, -row.allocated, row.name))


def by_owner(blocks: Iterable[Block], owner: Callable[[Block], str]) -> list[Row]:
    """What is alive by any other word for each block, the most first."""
    live: dict[str, Estimate] = defaultdict(Estimate)
    for block in blocks:
        live[owner(block)].add(block)
    return sorted(
        (Row(name, "", found) for name, found in live.items()),
        key=lambda row: (-row.live.bytes, row.name),
    )


def growth(before: Snapshot, after: Snapshot, owner: Mapping[int, Frame]) -> list[Grown]:
    """What grew between two snapshots of a process, by dominant function (``owner``: of the stacks
    of the later one).

    Blocks that were alive in both say nothing of it and add no error: it is what came less what
    went.
    """
    old = {block.identity: block for block in before.blocks}
    new = {block.identity: block for block in after.blocks}
    change: dict[tuple[str, str], Estimate] = defaultdict(Estimate)
    now: dict[tuple[str, str], float] = defaultdict(float)
    for identity, block in new.items():
        key = _key(owner[block.stack])
        now[key] += block.usable / block.chance
        if identity not in old:
            change[key].add(block)
    for identity, block in old.items():
        if identity not in new:
            change[_key(owner[block.stack])].add(block, -1)
    rows = [Grown(*key, found, now.get(key, 0.0)) for key, found in change.items()]
    return sorted(rows, key=lambda row: (-row.sure, row.name))


def named_share(snapshot: Snapshot, stacks: Stacks) -> float:
    """The share of frames that have names, over the samples taken; 1 where there was none."""
    known = all_ = 0
    for number, stack in snapshot.stacks.items():
        known += stack.samples * sum(frame.named for frame in stacks[number])
        all_ += stack.samples * len(stacks[number])
    return known / all_ if all_ else 1.0


def label(frame: Frame) -> str:
    """A function as tables name it."""
    return cpp_names.short(frame.function) if frame.named else frame.function


def _key(frame: Frame) -> tuple[str, str]:
    return label(frame), frame.module
