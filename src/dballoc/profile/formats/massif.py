"""massif.out: the text that valgrind's massif writes, and ms_print and massif-visualizer read
(valgrind's manual, "Massif: a heap profiler"; ms_print's source defines the syntax).

:func:`build_massif_run` makes of a series of profiles what such a file holds, and
:func:`encode_massif` the file; :mod:`dballoc.profile.formats.massif_text` prints it as ms_print
does.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Literal

from dballoc.profile import call_tree, frame_kinds
from dballoc.profile.call_tree import Node
from dballoc.profile.model import Frame, Profile
from dballoc.profile.symbols import cpp_names

# massif's own defaults and limits: --threshold, --depth, --detailed-freq.
THRESHOLD, DEPTH, MOST_DEPTH = 0.01, 30, 200
_DETAILED_EVERY = 10

TimeUnit = Literal["ms", "B"]
# Sums since the probe's start (or reset), from which a time axis in bytes follows.
_ALLOCATED = "allocated"

_ROOT = "(heap allocation functions) malloc/new/new[], --alloc-fns, etc."
_RULE = "#-----------"


@dataclass(frozen=True, kw_only=True)
class MassifOptions:
    """``threshold``: the share of a snapshot below which branches of its tree are summed up in a
    line; ``depth``: callers that a tree has at most; ``time_unit``: of the time axis: milliseconds
    of the wall clock, or bytes allocated and freed; ``allocators``: shell patterns of functions
    that count as malloc's own, so that trees begin at their callers.
    """

    threshold: float = THRESHOLD
    depth: int = MOST_DEPTH
    time_unit: TimeUnit = "ms"
    allocators: tuple[str, ...] = ()


@dataclass(frozen=True)
class HeapNode:
    """A place in a tree of callers that has allocated so many ``bytes``; the root's are all."""

    bytes: int
    place: str
    callers: tuple["HeapNode", ...] = ()


@dataclass(frozen=True, kw_only=True)
class MassifSnapshot:
    """``heap`` bytes alive at a ``time`` in the run's unit; ``tree``: None without detail."""

    time: int
    heap: int
    peak: bool
    tree: HeapNode | None


@dataclass(frozen=True, kw_only=True)
class MassifRun:
    """What a massif.out holds."""

    title: str
    time_unit: TimeUnit
    snapshots: list[MassifSnapshot]


def build_massif_run(profiles: Sequence[Profile], value: str, options: MassifOptions) -> MassifRun:
    """Build a snapshot of each profile, in the order of time. Every tenth has the tree of callers,
    and so have the peak and the last. Raises KeyError if a profile has no such value; ValueError if
    it is not in bytes, there is no profile, or they have no time in that unit.
    """
    if not profiles or any(p.values[p.column(value)].unit != "bytes" for p in profiles):
        raise ValueError("it holds bytes")
    ordered = sorted(profiles, key=lambda p: p.taken_at)
    times = _compute_times(ordered, value, options.time_unit)
    totals = [round(p.total(value)) for p in ordered]
    peak = totals.index(max(totals))
    last = len(ordered) - 1
    snapshots = [
        MassifSnapshot(
            time=time,
            heap=total,
            peak=i == peak,
            tree=(
                build_heap_tree(profile, value, total, options)
                if i in (peak, last) or i % _DETAILED_EVERY == _DETAILED_EVERY - 1
                else None
            ),
        )
        for i, (profile, time, total) in enumerate(zip(ordered, times, totals, strict=True))
    ]
    return MassifRun(
        title=_join_lines(ordered[-1].title), time_unit=options.time_unit, snapshots=snapshots
    )


def encode_massif(
    profiles: Sequence[Profile], value: str, options: MassifOptions | None = None
) -> bytes:
    """Encode profiles as a massif.out. Raises KeyError and ValueError as of
    :func:`build_massif_run`.
    """
    run = build_massif_run(profiles, value, options or MassifOptions())
    lines = [f"desc: {run.title}", "cmd: (profiled by dballoc)", f"time_unit: {run.time_unit}"]
    for i, snapshot in enumerate(run.snapshots):
        lines += [_RULE, f"snapshot={i}", _RULE, f"time={snapshot.time}"]
        lines += [f"mem_heap_B={snapshot.heap}", "mem_heap_extra_B=0", "mem_stacks_B=0"]
        if snapshot.tree is None:
            lines.append("heap_tree=empty")
            continue
        lines.append(f"heap_tree={'peak' if snapshot.peak else 'detailed'}")
        lines += [
            f"{' ' * level}n{len(node.callers)}: {node.bytes} {node.place}"
            for level, node in walk_heap_tree(snapshot.tree)
        ]
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def build_heap_tree(
    profile: Profile, value: str, total_bytes: int, options: MassifOptions
) -> HeapNode:
    """Build the tree of who allocated a profile's ``total_bytes``: the callers of malloc, their
    callers, and so on.
    """
    stripped = strip_allocators(profile, options.allocators)
    root = call_tree.build_call_tree([(stripped, value)], innermost_first=True)
    return _make_node(root, _ROOT, 0, total_bytes, options)


def walk_heap_tree(root: HeapNode) -> Iterator[tuple[int, HeapNode]]:
    """Yield every node with its level, 0 for the root, a place before its callers."""
    return call_tree.walk_tree(root, lambda node: reversed(node.callers))


def _make_node(
    node: Node, place: str, level: int, total_bytes: int, options: MassifOptions
) -> HeapNode:
    """Make a node with those of its callers; no deeper than ``options.depth``."""
    children = [
        child
        for child in (node.children.values() if level < options.depth else ())
        if child.total[0] > 0
    ]
    least = options.threshold * total_bytes
    large = sorted((c for c in children if c.total[0] >= least), key=lambda c: -c.total[0])
    small = [child for child in children if child.total[0] < least]
    callers = [
        _make_node(child, format_place(child.frame), level + 1, total_bytes, options)
        for child in large
    ]
    if small:
        places = "1 place," if len(small) == 1 else f"{len(small)} places, all"
        callers.append(
            HeapNode(
                round(sum(child.total[0] for child in small)),
                f"in {places} below massif's threshold ({options.threshold:.2%})",
            )
        )
    return HeapNode(min(total_bytes, round(node.total[0])), place, tuple(callers))


def strip_allocators(profile: Profile, patterns: Sequence[str]) -> Profile:
    """Return a profile with stacks that end in the caller of malloc, or of a function of these
    ``patterns`` that has called it: there massif's tree begins.
    """

    @cache
    def allocates(function: str) -> bool:
        name = cpp_names.shorten_name(function)
        return frame_kinds.is_malloc(name) or any(fnmatchcase(name, p) for p in patterns)

    samples = []
    for sample in profile.samples:
        end = len(sample.stack)
        while end > 1 and allocates(sample.stack[end - 1].function):
            end -= 1
        samples.append(replace(sample, stack=sample.stack[:end]))
    return replace(profile, samples=samples)


def _compute_times(ordered: Sequence[Profile], value: str, unit: TimeUnit) -> list[int]:
    """Return the time of each profile since the first. Raises ValueError if it cannot be told in
    that unit.
    """
    first = ordered[0]
    if unit == "ms":
        return [round((profile.taken_at - first.taken_at) * 1000) for profile in ordered]
    if any(_ALLOCATED not in {v.key for v in profile.values} for profile in ordered):
        raise ValueError("a time in bytes needs profiles that know what was allocated")
    times: list[int] = []
    for profile in ordered:
        allocated = profile.total(_ALLOCATED) - first.total(_ALLOCATED)
        grown = profile.total(value) - first.total(value)
        # What was allocated, and what of it and of the rest was freed; both are estimates.
        passed = max(round(2 * allocated - grown), times[-1] if times else 0)
        if allocated < 0:
            raise ValueError("a time in bytes needs sums that were not reset between the snapshots")
        times.append(passed)
    return times


def format_place(frame: Frame) -> str:
    """Format a frame as ``0xADDRESS: function (file:line)``. A profile has an address only where
    there is no name, so it is 0x0 for all others.
    """
    address = re.fullmatch(r".*\+(0x[0-9a-f]+)", frame.function)
    if not frame.named and address:
        return f"{address[1]}: ??? (in {_join_lines(frame.module)})"
    where = (
        f"{frame.file.rpartition('/')[2]}:{frame.line}"
        if frame.file
        else f"in {frame.module or 'nowhere'}"
    )
    return _join_lines(f"0x0: {frame.function} ({where})")


def _join_lines(text: str) -> str:
    # To ms_print a # begins a comment.
    return " ".join(text.replace("#", ".").split())
