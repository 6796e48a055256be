"""Print a run of massif's as ms_print does: the graph, the snapshots, and the trees of the detailed
ones (valgrind's manual, "Massif: a heap profiler", "The Output Graph" and "The Snapshot Details").
Beyond ms_print: what changed between two snapshots. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dballoc.profile import call_tree
from dballoc.profile.call_tree import Node
from dballoc.profile.formats.massif import (
    HeapNode,
    MassifOptions,
    MassifRun,
    MassifSnapshot,
    format_place,
    strip_allocators,
)
from dballoc.profile.model import Profile

# ms_print's defaults: columns and rows of the graph.
WIDTH, HEIGHT = 72, 20

_RULE = "-" * 80
# How a bar is drawn: a plain snapshot, one with a tree, the peak. Where several fall on one place,
# the last of these is seen.
_PLAIN, _DETAILED, _PEAK = ":", "@", "#"
_MARKS = f" {_PLAIN}{_DETAILED}{_PEAK}"
_DIGITS = 5


class Unit(NamedTuple):
    """A unit of an axis: how many of the unit before make one, and from how many on it is used."""

    name: str
    factor: int
    least: int


BYTES = tuple(
    Unit(name, 1024, 1000) for name in ("B", "KB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB")
)
MILLISECONDS = (Unit("ms", 1, 1), Unit("s", 1000, 1000), Unit("h", 3600, 3600))


def render_massif(run: MassifRun) -> str:
    """Return the graph, the table of snapshots, and the trees in it."""
    return "\n".join([*_draw_graph(run), "", *_list_numbers(run), "", *_list_snapshots(run)]) + "\n"


def _draw_graph(run: MassifRun) -> list[str]:
    peak = max(1, *(snapshot.heap for snapshot in run.snapshots))
    end = max(1, run.snapshots[-1].time)
    top, unit = scale_amount(peak, BYTES)
    right, time_unit = scale_amount(end, MILLISECONDS if run.time_unit == "ms" else BYTES)
    rows = _draw_bars(run.snapshots, end, peak)
    return [
        f"{unit:>6}",
        f"{top:>{_DIGITS}}^{rows[0]}",
        *(f"{'':{_DIGITS}}|{row}" for row in rows[1:]),
        f"{0:>{_DIGITS - 1}} +{'-' * (WIDTH - 1)}>{time_unit}",
        f"{0:>{_DIGITS + 1}}{'':{WIDTH - _DIGITS}}{right:>{_DIGITS}}",
    ]


def _draw_bars(snapshots: Sequence[MassifSnapshot], end: int, peak: int) -> list[str]:
    """Draw a bar for each snapshot, and from its top a line to the bar of the next one."""
    cells = [[" "] * WIDTH for _ in range(HEIGHT)]
    columns = [_find_column(snapshot.time, end) for snapshot in snapshots]
    nexts = [*columns[1:], columns[-1]]
    for snapshot, column, next_column in zip(snapshots, columns, nexts, strict=True):
        height = _measure_height(snapshot.heap, peak)
        mark = _PEAK if snapshot.peak else _DETAILED if snapshot.tree else _PLAIN
        places = [(row, column) for row in range(height)]
        if height:
            places += [(height - 1, line) for line in range(column + 1, next_column)]
        for row, line in places:
            cells[row][line] = max(cells[row][line], mark, key=_MARKS.index)
    return ["".join(row) for row in reversed(cells)]


def _find_column(time: int, end: int) -> int:
    return min(WIDTH - 1, time * WIDTH // end)


def _measure_height(size: int, peak: int) -> int:
    return max(0, size) * HEIGHT // peak


def scale_amount(amount: int, units: Sequence[Unit]) -> tuple[str, str]:
    """Return an amount in four digits or so, and the unit in which it has them."""
    number, name = float(amount), units[0].name
    for unit in units[1:]:
        if number < unit.least:
            break
        number, name = number / unit.factor, unit.name
    if name == units[0].name:
        return str(amount), name
    return f"{number:.{3 if number < 10 else 2 if number < 100 else 1}f}", name


def _list_numbers(run: MassifRun) -> list[str]:
    detailed = [
        f"{i} (peak)" if snapshot.peak else str(i)
        for i, snapshot in enumerate(run.snapshots)
        if snapshot.tree
    ]
    return [
        f"Number of snapshots: {len(run.snapshots)}",
        f" Detailed snapshots: [{', '.join(detailed)}]",
    ]


def _list_snapshots(run: MassifRun) -> list[str]:
    """List the snapshots; the table begins again after a tree."""
    head = [
        _RULE,
        _format_row("n", f"time({run.time_unit})", "total(B)", "useful-heap(B)"),
        _RULE,
    ]
    lines = list(head)
    for i, snapshot in enumerate(run.snapshots):
        heap = f"{snapshot.heap:,}"
        lines.append(_format_row(str(i), f"{snapshot.time:,}", heap, heap, "0", "0"))
        if snapshot.tree:
            lines += render_tree(snapshot.tree)
            lines += head if i < len(run.snapshots) - 1 else []
    return lines


def _format_row(
    number: str,
    time: str,
    total: str,
    useful: str,
    extra: str = "extra-heap(B)",
    stacks: str = "stacks(B)",
) -> str:
    return f"{number:>3} {time:>14} {total:>16} {useful:>16} {extra:>13} {stacks:>12}"


def render_tree(root: HeapNode) -> list[str]:
    """Return a tree's lines, each place with its share of the root's bytes."""
    lines = [_format_node(root, root.bytes), *([] if root.callers else [""])]
    waiting = [(caller, "", i == len(root.callers) - 1) for i, caller in enumerate(root.callers)]
    waiting.reverse()
    while waiting:
        node, indent, is_last = waiting.pop()
        lines.append(f"{indent}->{_format_node(node, root.bytes)}")
        inner = indent + ("  " if is_last else "| ")
        if not node.callers:
            lines.append(inner)
        waiting += [
            (caller, inner, i == len(node.callers) - 1)
            for i, caller in reversed(list(enumerate(node.callers)))
        ]
    return lines


def _format_node(node: HeapNode, total: int) -> str:
    share = node.bytes / total * 100 if total else 0.0
    return f"{share:05.2f}% ({node.bytes:,}B) {node.place}"


@dataclass
class _Changed:
    """How a place of a tree changed: bytes that its stacks ``grown`` and ``shrunk`` by."""

    grown: float = 0.0
    shrunk: float = 0.0

    @property
    def most(self) -> float:
        return max(self.grown, self.shrunk)


def render_change(before: Profile, after: Profile, value: str, options: MassifOptions) -> list[str]:
    """Return the tree of what changed between two snapshots: at each place the difference, and the
    bytes before and after. A place is shown if what grew there, or what shrank, is more than the
    threshold of the larger snapshot. Raises KeyError if a profile has no such value.
    """
    pairs = [(strip_allocators(p, options.allocators), value) for p in (before, after)]
    root = call_tree.build_call_tree(pairs, innermost_first=True)
    changes = _sum_changes(root)
    least = max(1.0, options.threshold * max(root.total))
    lines = [_format_change(root, "all")]
    waiting: list[tuple[Node, str, bool, int]] = []

    def push(node: Node, indent: str, level: int) -> None:
        """Put the callers of a place that changed on the stack, the most changed on top."""
        if level >= options.depth:
            return
        callers = [c for c in node.children.values() if changes[id(c)].most >= least]
        callers.sort(key=lambda c: changes[id(c)].most)
        waiting.extend((caller, indent, i == 0, level + 1) for i, caller in enumerate(callers))

    push(root, "", 0)
    while waiting:
        node, indent, is_last, level = waiting.pop()
        lines.append(f"{indent}->{_format_change(node, format_place(node.frame))}")
        push(node, indent + ("  " if is_last else "| "), level)
    return lines


def _sum_changes(root: Node) -> dict[int, _Changed]:
    """Sum up for each node, by its id, what grew and what shrank among the stacks that end in it or
    go on beyond it: what one caller grew by does not hide what another one shrank by.
    """
    changes: dict[int, _Changed] = {}
    nodes = [node for _, node in call_tree.walk_call_tree(root)]
    for node in reversed(nodes):
        callers = [changes[id(caller)] for caller in node.children.values()]
        before, after = (
            node.total[i] - sum(caller.total[i] for caller in node.children.values())
            for i in (0, 1)
        )
        changes[id(node)] = _Changed(
            sum(c.grown for c in callers) + max(0.0, after - before),
            sum(c.shrunk for c in callers) + max(0.0, before - after),
        )
    return changes


def _format_change(node: Node, place: str) -> str:
    before, after = (round(total) for total in node.total)
    change = after - before
    sign = "+" if change >= 0 else "-"
    return f"{sign}{abs(change):,}B ({before:,}B, then {after:,}B) {place}"
