"""Tell what a thread waits for from its call stack, by the rules of catalogue/waits.toml. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import translate
from typing import Any, NamedTuple

from dballoc.profile.model import Frame

# The module of the kernel's frames.
KERNEL = "[kernel]"

# The groups of a wait that no rule matches, and of a thread that could have run on.
OTHER, PREEMPTED = "other", "preempted"


class WaitKind(NamedTuple):
    """What a thread waits for. ``group``: memory, lock, condition, disk, client, timer, other,
    preempted; ``call``: more closely, like ``mmap``; ``entry``: the function by which malloc was
    entered, empty if the stack is not below malloc.
    """

    group: str
    call: str
    entry: str


class Rules:
    """The rules; their answer for a frame is kept, as a function is on thousands of stacks."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        allocator = table["allocator"]
        self._entries, self._modules = (
            _compile_names(allocator["entries"]),
            _compile_names(allocator["modules"]),
        )
        self._threads = _compile_names(allocator["threads"])
        self._starts = _compile_names(table["starts"])
        kernel = table["kernel"]
        self._kernel_modules, self._kernel_entries = (
            _compile_names(kernel["modules"]),
            _compile_names(kernel["entries"]),
        )
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
        """Return what a thread with this stack, the outermost frame first, waits for."""
        entry = self.find_entry(stack)
        if preempted:
            return WaitKind(PREEMPTED, PREEMPTED, entry)
        rank = min((self._find_rank(frame.function) for frame in stack), default=len(self._waits))
        if rank == len(self._waits):
            return WaitKind(OTHER, OTHER, entry)
        name, group, _ = self._waits[rank]
        return WaitKind(group, name, entry)

    def classify_call(self, name: str) -> tuple[str, str]:
        """Return group and name of a wait in a system call; other if no rule has it."""
        return self._calls.get(name, (OTHER, name))

    def find_entry(self, stack: Iterable[Frame]) -> str:
        """Return the outermost function of an allocator; empty if there is none, or if the thread
        is one of the allocator's own.
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

    def mark_kernel(self, stack: Sequence[Frame]) -> tuple[Frame, ...]:
        """Return the stack with :data:`KERNEL` for the module of the kernel's frames, which other
        programs name by their files, or not at all.
        """
        marked, inside = [], False
        for frame in stack:
            inside = inside or (not frame.module and bool(self._kernel_entries(frame.function)))
            of_kernel = (inside and not frame.module) or self._kernel_modules(frame.module.lower())
            marked.append(frame._replace(module=KERNEL) if of_kernel else frame)
        return tuple(marked)

    def _find_rank(self, function: str) -> int:
        """Return the index of the first rule that matches a function; the number of rules if none
        does.
        """
        rank = self._ranks.get(function)
        if rank is None:
            rank = next(
                (i for i, (_, _, has) in enumerate(self._waits) if has(function)), len(self._waits)
            )
            self._ranks[function] = rank
        return rank


def _compile_names(names: Iterable[str]) -> Any:
    """Return the match function for names in which ``*`` stands for anything. Brackets stand for
    themselves, as C++ names have them.
    """
    literal = (name.replace("[", "[[]") for name in names)
    return re.compile("|".join(map(translate, literal))).match
