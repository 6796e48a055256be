"""massif.out: the text that valgrind's massif writes, and ms_print and massif-visualizer read
(valgrind's manual, "Massif: a heap profiler"; ms_print's source defines the syntax).
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from dballoc.profile import call_tree, frame_kinds
from dballoc.profile.call_tree import Node
from dballoc.profile.model import Frame, Profile
from dballoc.profile.symbols import cpp_names

# Branches of a tree below this share of the snapshot are summed up in a line: massif's default.
_THRESHOLD = 0.01

_RULE = "#-----------"


def encode_massif(profiles: Sequence[Profile], value: str) -> bytes:
    """Encode a snapshot for each profile, in the order of time, with the tree of callers at the
    peak and at the end. KeyError if a profile has no such value; ValueError if it is not in bytes,
    or there is no profile.
    """
    if not profiles or any(p.values[p.column(value)].unit != "bytes" for p in profiles):
        raise ValueError("it holds bytes")
    ordered = sorted(profiles, key=lambda p: p.taken_at)
    totals = [round(p.total(value)) for p in ordered]
    peak = totals.index(max(totals))
    lines = [
        f"desc: {_join_lines(ordered[-1].title)}",
        "cmd: (profiled by dballoc)",
        "time_unit: ms",
    ]
    for i, (profile, total) in enumerate(zip(ordered, totals, strict=True)):
        lines += [
            _RULE,
            f"snapshot={i}",
            _RULE,
            f"time={_compute_milliseconds(ordered[0], profile)}",
        ]
        lines += [f"mem_heap_B={total}", "mem_heap_extra_B=0", "mem_stacks_B=0"]
        if i not in (peak, len(ordered) - 1):
            lines.append("heap_tree=empty")
            continue
        lines.append(f"heap_tree={'peak' if i == peak else 'detailed'}")
        lines += _format_tree(
            call_tree.build_call_tree(
                [(_strip_malloc_frames(profile), value)], innermost_first=True
            ),
            total,
        )
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def _strip_malloc_frames(profile: Profile) -> Profile:
    """Return a profile with stacks that end in the caller of malloc, where massif's tree begins."""
    samples = []
    for sample in profile.samples:
        end = len(sample.stack)
        while end > 1 and frame_kinds.is_malloc(
            cpp_names.shorten_name(sample.stack[end - 1].function)
        ):
            end -= 1
        samples.append(replace(sample, stack=sample.stack[:end]))
    return replace(profile, samples=samples)


def _compute_milliseconds(first: Profile, profile: Profile) -> int:
    return round((profile.taken_at - first.taken_at) * 1000)


def _format_tree(root: Node, total_bytes: int) -> list[str]:
    lines = []
    pending: list[tuple[int, Node | str]] = [(0, root)]
    while pending:
        level, node = pending.pop()
        if isinstance(node, str):
            lines.append(" " * level + node)
            continue
        shown = [
            child
            for child in node.children.values()
            if child.total[0] >= _THRESHOLD * total_bytes > 0
        ]
        shown.sort(key=lambda child: -child.total[0])
        small_children = [
            child for child in node.children.values() if child.total[0] < _THRESHOLD * total_bytes
        ]
        place = (
            "(heap allocation functions) malloc/new/new[], --alloc-fns, etc."
            if node is root
            else _format_place(node.frame)
        )
        lines.append(
            f"{' ' * level}n{len(shown) + bool(small_children)}: "
            f"{min(total_bytes, round(node.total[0]))} {place}"
        )
        if small_children:
            small_bytes = round(sum(child.total[0] for child in small_children))
            places = (
                "1 place, " if len(small_children) == 1 else f"{len(small_children)} places, all "
            )
            pending.append(
                (
                    level + 1,
                    f"n0: {small_bytes} in {places}below massif's threshold ({_THRESHOLD:.2%})",
                )
            )
        pending += [(level + 1, child) for child in reversed(shown)]
    return lines


def _format_place(frame: Frame) -> str:
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
