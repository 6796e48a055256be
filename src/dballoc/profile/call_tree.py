"""A profile's samples as a tree of calls. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from dballoc.profile.model import Frame, Profile, Sample

AnyNode = TypeVar("AnyNode")

# The first frame of a stack whose outermost frames are missing.
TRUNCATED = Frame("[truncated]", named=False)


@dataclass
class Node:
    """A function called by those above it. ``total``: a number for each profile that was merged,
    which includes what is below.
    """

    frame: Frame
    total: list[float]
    children: dict[tuple[str, str], "Node"] = field(default_factory=dict)


def list_frames(sample: Sample) -> tuple[Frame, ...]:
    """Return a sample's stack, with a mark in front if its outermost frames are missing."""
    return (TRUNCATED, *sample.stack) if sample.truncated else sample.stack


def build_call_tree(columns: Iterable[tuple[Profile, str]], innermost_first: bool = False) -> Node:
    """Merge pairs of a profile and the key of its value into one tree, with a number in ``total``
    for each pair. ``innermost_first``: the tree's first level has the innermost functions, the next
    their callers, and so on. Raises KeyError if a profile lacks its value.
    """
    pairs = list(columns)
    root = Node(Frame(""), [0.0] * len(pairs))
    for i, (profile, value) in enumerate(pairs):
        column = profile.column(value)
        for sample in profile.samples:
            number = sample.values[column]
            stack = list_frames(sample)
            node = root
            node.total[i] += number
            for frame in reversed(stack) if innermost_first else stack:
                key = frame.function, frame.module
                if key not in node.children:
                    node.children[key] = Node(frame, [0.0] * len(pairs))
                node = node.children[key]
                node.total[i] += number
    return root


def walk_call_tree(root: Node) -> Iterator[tuple[int, Node]]:
    """Yield every node with its level, 0 for the root, a parent before its children."""
    return walk_tree(root, lambda node: node.children.values())


def walk_tree(
    root: AnyNode, list_children: Callable[[AnyNode], Iterable[AnyNode]]
) -> Iterator[tuple[int, AnyNode]]:
    """Yield every node of any tree as :func:`walk_call_tree` does. It is not recursive, as stacks
    may be very deep.
    """
    waiting = [(0, root)]
    while waiting:
        level, node = waiting.pop()
        yield level, node
        waiting += [(level + 1, child) for child in list_children(node)]
