"""Heap profiles from the probe's snapshots: estimates with their errors, by call stack, function or
owner, and growth. Pure.

A block that was sampled with probability p stands for 1/p blocks (Horvitz and Thompson). The
estimates are unbiased. A block adds (1 - p)/p² times the square of its value to the variance;
variances add up, for blocks are sampled independently.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dballoc.catalogue import wrappers
from dballoc.host.process import maps
from dballoc.profile import frame_kinds
from dballoc.profile.amounts import format_amount
from dballoc.profile.heap.probe_snapshot import SampledBlock, SampledStack, Snapshot
from dballoc.profile.model import Frame, Profile, Sample, Value
from dballoc.profile.profile_tables import VARIANCE
from dballoc.profile.symbols import cpp_names
from dballoc.profile.symbols.symbols import Mapped

# Keys of a heap profile's values; the first is what a table or graph shows by default.
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

Stacks = Mapping[int, tuple[Frame, ...]]


@dataclass(kw_only=True)
class Estimate:
    """An estimate of ``bytes`` and ``objects`` (blocks), with the variances of both, from
    ``samples`` sampled blocks.
    """

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

    def add(self, block: SampledBlock, sign: int = 1) -> None:
        """Add a sampled block; with ``sign`` -1 one that is gone."""
        p = block.chance
        spread = (1 - p) / (p * p)
        self.bytes += sign * block.usable / p
        self.variance += block.usable**2 * spread
        self.objects += sign / p
        self.objects_variance += spread
        self.samples += 1


@dataclass(frozen=True)
class HeapRow:
    """A function or an owner: what is alive, and the bytes ``allocated`` since the probe's sums
    were reset.
    """

    name: str
    module: str
    live: Estimate
    allocated: float = 0.0


@dataclass(frozen=True)
class TimeSpent:
    """A function's estimated time in malloc and free: ``seconds`` in calls that did not stall, and
    further seconds ``stalled`` in those that did.
    """

    name: str
    module: str
    seconds: float
    stalled: float


@dataclass(frozen=True)
class FunctionGrowth:
    """A function's ``change`` between two snapshots; ``after``: bytes alive in the later one."""

    name: str
    module: str
    change: Estimate
    after: float

    @property
    def sure(self) -> float:
        """Bytes that it has surely grown: the estimate less two standard errors. Tables are ordered
        by it, so that what grew by chance does not come first.
        """
        return self.change.bytes - 2 * self.change.error


def parse_mappings(snapshot: Snapshot) -> list[Mapped]:
    """Parse the process's executable mappings, with the build-ids in its memory."""
    mapped = []
    executable = ""
    for line in maps.parse_maps(snapshot.maps):
        path = line.path
        executable = executable or path  # mapped first; the loader has it under an empty name
        if "x" in line.permissions:
            path_build_id = snapshot.build_ids.get(path.removesuffix(" (deleted)"))
            build_id = path_build_id or (
                snapshot.build_ids.get("", "") if path == executable else ""
            )
            mapped.append(Mapped(line.start, line.end, line.offset, path, build_id))
    return mapped


def resolve_stacks(
    stacks: Mapping[int, SampledStack], resolve: Callable[[int], tuple[Frame, ...]]
) -> dict[int, tuple[Frame, ...]]:
    """Return each stack's functions, the thread's start first. ``resolve`` returns those at an
    address. Return addresses are looked up one byte before, as a call may be a function's last
    instruction.
    """
    resolved = {}
    for number, stack in stacks.items():
        resolved[number] = tuple(
            frame for address in reversed(stack.addresses) for frame in resolve(address - 1)
        )
    return resolved


def sum_blocks(blocks: Iterable[SampledBlock]) -> Estimate:
    """Return the estimate of all blocks together."""
    total = Estimate()
    for block in blocks:
        total.add(block)
    return total


def make_profile(snapshot: Snapshot, stacks: Stacks, title: str) -> Profile:
    """Make a profile with one sample for each call stack."""
    live: dict[int, Estimate] = defaultdict(Estimate)
    for block in snapshot.blocks:
        live[block.stack].add(block)
    times = estimate_times(snapshot)
    samples = []
    for number, stack in snapshot.stacks.items():
        estimate = live.get(number, Estimate())
        if estimate.samples == 0 and stack.samples == 0 and number not in times:
            continue
        values = (
            estimate.bytes,
            estimate.variance,
            estimate.objects,
            estimate.objects_variance,
            stack.bytes,
            stack.variance,
            stack.objects,
            *times.get(number, (0.0, 0.0)),
        )
        samples.append(
            Sample(stacks[number] or (Frame("[no stack]", named=False),), values, stack.truncated)
        )
    profile_facts = {
        "sampled": f"one in {format_amount(snapshot.interval, 'bytes')}"
        if snapshot.interval
        else "not any more",
        "live blocks sampled": f"{len(snapshot.blocks):,}",
        "stacks that reach a thread's start": f"{snapshot.complete:.2%}",
        "allocated since": f"{snapshot.now - snapshot.reset:.0f} s before",
        "samples without room": f"{snapshot.lost_blocks + snapshot.lost_stacks}",
    }
    return Profile(
        title=title,
        values=_VALUES,
        samples=samples,
        taken_at=snapshot.taken_at,
        seconds=0.0,
        facts=profile_facts,
    )


def estimate_times(snapshot: Snapshot) -> dict[int, tuple[float, float]]:
    """Return the estimated seconds in malloc and free of each stack whose calls were timed: without
    stalls, and in stalls, since the probe's sums were reset. A timed call stands for
    :attr:`Snapshot.period` calls. A stack was recorded for every call that stalled, and for one in
    :attr:`Snapshot.stacks_period` of the others.
    """
    times: dict[int, tuple[float, float]] = {}
    for waits in snapshot.waits:
        short, stalled = times.get(waits.stack, (0.0, 0.0))
        seconds_per_nanosecond = snapshot.period / 1e9
        times[waits.stack] = (
            short + waits.nanoseconds * seconds_per_nanosecond * snapshot.stacks_period,
            stalled + waits.stalled * seconds_per_nanosecond,
        )
    return times


def rank_functions_by_time(
    snapshot: Snapshot, dominant_frames: Mapping[int, Frame]
) -> list[TimeSpent]:
    """The dominant functions by their time in malloc and free, stalls included, the most first.
    ``dominant_frames``: of each stack, by
    :func:`find_dominant_frame`.
    """
    seconds: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for number, times in estimate_times(snapshot).items():
        for i, part in enumerate(times):
            seconds[_make_function_key(dominant_frames[number])][i] += part
    rows = [TimeSpent(*key, short, stalled) for key, (short, stalled) in seconds.items()]
    return sorted(rows, key=lambda row: (-row.seconds - row.stalled, row.name))


def find_dominant_frame(stack: Sequence[Frame], wrappers: Sequence[str]) -> Frame:
    """Return the function that a stack's memory is attributed to: the innermost with a name that is
    no wrapper, which only hands memory on.
    """
    for frame in reversed(stack):
        if frame.named and frame_kinds.classify_frame(frame) != "malloc":
            label = cpp_names.shorten_name(frame.function)
            if not any(fnmatchcase(label, pattern) for pattern in wrappers):
                return frame
    return stack[-1] if stack else Frame("[no stack]", named=False)


def rank_functions(snapshot: Snapshot, dominant_frames: Mapping[int, Frame]) -> list[HeapRow]:
    """The dominant functions, the most alive first. ``dominant_frames``: of each stack, by
    :func:`find_dominant_frame`.
    """
    live: dict[tuple[str, str], Estimate] = defaultdict(Estimate)
    allocated: dict[tuple[str, str], float] = defaultdict(float)
    for block in snapshot.blocks:
        live[_make_function_key(dominant_frames[block.stack])].add(block)
    for number, stack in snapshot.stacks.items():
        if stack.samples:
            allocated[_make_function_key(dominant_frames[number])] += stack.bytes
    rows = [
        HeapRow(*key, live.get(key, Estimate()), allocated.get(key, 0.0))
        for key in live.keys() | allocated.keys()
    ]
    return sorted(rows, key=lambda row: (-row.live.bytes, -row.allocated, row.name))


def rank_owners(
    blocks: Iterable[SampledBlock], name_owner: Callable[[SampledBlock], str]
) -> list[HeapRow]:
    """Return what is alive by owner, the most first. ``name_owner`` names a block's owner."""
    live: dict[str, Estimate] = defaultdict(Estimate)
    for block in blocks:
        live[name_owner(block)].add(block)
    return sorted(
        (HeapRow(name, "", estimate) for name, estimate in live.items()),
        key=lambda row: (-row.live.bytes, row.name),
    )


def rank_growth(
    before: Snapshot, after: Snapshot, dominant_frames: Mapping[int, Frame]
) -> list[FunctionGrowth]:
    """Return how each dominant function's memory changed between two snapshots of a process, what
    most surely grew first. ``dominant_frames``: by stack number, of the later snapshot.

    The change is what came less what went: blocks that were alive in both add nothing, and no
    error either.
    """
    blocks_before = {block.identity: block for block in before.blocks}
    blocks_after = {block.identity: block for block in after.blocks}
    change: dict[tuple[str, str], Estimate] = defaultdict(Estimate)
    bytes_after: dict[tuple[str, str], float] = defaultdict(float)
    for identity, block in blocks_after.items():
        key = _make_function_key(dominant_frames[block.stack])
        bytes_after[key] += block.usable / block.chance
        if identity not in blocks_before:
            change[key].add(block)
    for identity, block in blocks_before.items():
        if identity not in blocks_after:
            change[_make_function_key(dominant_frames[block.stack])].add(block, -1)
    rows = [
        FunctionGrowth(*key, estimate, bytes_after.get(key, 0.0))
        for key, estimate in change.items()
    ]
    return sorted(rows, key=lambda row: (-row.sure, row.name))


def compute_named_share(snapshot: Snapshot, stacks: Stacks) -> float:
    """Return the share of frames that have names, over all samples; 1 if there are none."""
    named = total = 0
    for number, stack in snapshot.stacks.items():
        named += stack.samples * sum(frame.named for frame in stacks[number])
        total += stack.samples * len(stacks[number])
    return named / total if total else 1.0


def format_function(frame: Frame) -> str:
    """Return a function's name for tables."""
    return cpp_names.shorten_name(frame.function) if frame.named else frame.function


def _make_function_key(frame: Frame) -> tuple[str, str]:
    return format_function(frame), frame.module


def sum_by_holder(profile: Profile, values: Sequence[str]) -> dict[str, list[float]]:
    """Return the sums of these values by the function that :func:`find_dominant_frame` attributes
    memory, and time in malloc, to. Raises KeyError if the profile lacks a value.
    """
    columns, patterns = [profile.column(key) for key in values], wrappers()
    sums: dict[str, list[float]] = {}
    for sample in profile.samples:
        holder_sums = sums.setdefault(
            format_function(find_dominant_frame(sample.stack, patterns)),
            [0.0] * len(columns),
        )
        for i, column in enumerate(columns):
            holder_sums[i] += sample.values[column]
    return sums
