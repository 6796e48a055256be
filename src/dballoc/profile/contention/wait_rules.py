"""What a thread waits for, told from its call stack by the rules of catalogue/waits.toml. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import translate
from typing import Any, NamedTuple

from dballoc.profile.model import Frame

# Of a wait that no rule knows, and of a thread that was sent away while it could go on.
OTHER, PREEMPTED = "other", "preempted"


class WaitKind(NamedTuple):
    """``group``: memory, lock, condition, disk, client, timer, other, preempted; ``call``: what
    within it, as ``mmap``; ``entry``: the function by which malloc was entered, empty if the stack
    does not lie below it.
    """

    group: str
    call: str
    entry: str


class Rules:
    """The rules; what they say of a frame is kept, for a function is on thousands of stacks."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        allocator = table["allocator"]
        self._entries, self._modules = (
            _compile_names(allocator["entries"]),
            _compile_names(allocator["modules"]),
        )
        self._threads = _compile_names(allocator["threads"])
        self._starts = _compile_names(table["starts"])
        self._waits = [
            (wait["name"], wait["group"], _compile_names(wait["frames"])) for wait in table["wait"]
        ]
        self._calls = {
            call: (wait["group"], wait["name"])
            for wait in table["wait"]
            for call in wait.get("calls", [])
        }
        self._ranks: dict[str, int] = {}
        self._allocators: dict[Frame, bool] = {}

    def classify(self, stack: Sequence[Frame], preempted: bool = False) -> WaitKind:
        """Of a stack, the outermost frame first."""
        entry = self.find_entry(stack)
        if preempted:
            return WaitKind(PREEMPTED, PREEMPTED, entry)
        rank = min((self._find_rank(frame.function) for frame in stack), default=len(self._waits))
        if rank == len(self._waits):
            return WaitKind(OTHER, OTHER, entry)
        name, group, _ = self._waits[rank]
        return WaitKind(group, name, entry)

    def classify_call(self, name: str) -> tuple[str, str]:
        """Group and name of a wait in a system call; other if no rule has it."""
        return self._calls.get(name, (OTHER, name))

    def find_entry(self, stack: Iterable[Frame]) -> str:
        """The outermost function that is an allocator's; empty if there is none, or the thread is
        the allocator's own.
        """
        for frame in stack:
            is_allocator = self._allocators.get(frame)
            if is_allocator is None:
                is_allocator = bool(self._entries(frame.function) or self._modules(frame.module))
                self._allocators[frame] = is_allocator
            if is_allocator:
                return "" if self._threads(frame.function) else frame.function
        return ""

    def cut(self, stack: Sequence[Frame]) -> bool:
        """Whether the outermost frames are missing."""
        return not any(self._starts(frame.function) for frame in stack[:3])

    def _find_rank(self, function: str) -> int:
        """The number of the first rule that has this function; the number of rules if none has."""
        rank = self._ranks.get(function)
        if rank is None:
            rank = next(
                (i for i, (_, _, has) in enumerate(self._waits) if has(function)), len(self._waits)
            )
            self._ranks[function] = rank
        return rank


def _compile_names(names: Iterable[str]) -> Any:
    """The match function of names with ``*``, which may be anything; brackets are a C++
    name's own.
    """
    literal = (name.replace("[", "[[]") for name in names)
    return re.compile("|".join(map(translate, literal))).match
