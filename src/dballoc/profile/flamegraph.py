"""Flame graphs as HTML that needs nothing from outside: a page of its own, or parts of another one.

Drawn by d3-flame-graph on d3 (``static/``, with their licences). A difference has four views:
frames as wide as after, as before, as what grew, as what shrank.
"""

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import jinja2
from markupsafe import Markup

import dballoc
from dballoc.profile import call_tree, frame_kinds, profile_tables
from dballoc.profile.amounts import amount, signed
from dballoc.profile.call_tree import Node
from dballoc.profile.model import Frame, Profile, Value
from dballoc.profile.symbols import cpp_names

# What a page does not hold: frames below this share of the whole, which no screen shows, and of the
# rest the smallest, so that a profile of many stacks still opens at once.
_SMALLEST = 1 / 20_000
_MOST = 20_000

# Lines of a page's tables.
_ROWS = 25

_LIBRARIES = ("d3.min.js", "d3-flamegraph.umd.min.js")


# A name, its columns, its rows.
_Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]


@dataclass(frozen=True)
class _View:
    """What a button shows. ``nodes``: level, number of the name, width, and of a difference before,
    after and its error.
    """

    name: str
    note: str
    nodes: list[list[float | None]]
    left_out: int


class _Names:
    """Functions, numbered as they come up: name, label, module, place in the source, kind."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, str], int] = {}
        self.rows: list[list[str]] = []

    def number(self, frame: Frame) -> int:
        key = frame.function, frame.module
        if key not in self.numbers:
            self.numbers[key] = len(self.rows)
            place = f"{frame.file}:{frame.line}" if frame.file else ""
            self.rows.append(
                [
                    frame.function,
                    cpp_names.short(frame.function),
                    frame.module,
                    place,
                    frame_kinds.kind(frame),
                ]
            )
        return self.numbers[key]


def page(profiles: Sequence[tuple[str, Profile]], value: str, title: str) -> str:
    """A whole HTML page: the flame graph of a value, with a switch between the named profiles.
    KeyError if one of them does not have the value.
    """
    of = _value(profiles[0][1], value)
    tables = []
    for name, p in profiles:
        said = f"{name}: functions", f"{name}: call stacks"
        of_functions, of_stacks = said if len(profiles) > 1 else ("Functions", "Call stacks")
        tables += [_functions(of_functions, p, of), _stacks(of_stacks, p, of)]
    facts = [(name, [*_totals(p, of), *p.facts.items()]) for name, p in profiles]
    return _page(title, of, fragment(profiles, value, title), tables, facts)


def difference(before: Profile, after: Profile, value: str, title: str) -> str:
    """A whole HTML page: what grew and what shrank between two profiles. KeyError as
    :func:`page`.
    """
    of = _value(after, value)
    tables = []
    for what, found in (
        ("call stack", profile_tables.growth(before, after, value)),
        ("function", profile_tables.growth_by_function(before, after, value)),
    ):
        grown = [row for row in found if row.grown > 0][:_ROWS]
        shrunk = [row for row in found[::-1] if row.grown < 0][:_ROWS]
        tables += [
            _growth(f"What {said}, by {what}", some, of)
            for said, some in (("grew", grown), ("shrank", shrunk))
            if some
        ]
    facts = [
        (f"{name}: {p.title}", [*_totals(p, of), *p.facts.items()])
        for name, p in (("before", before), ("after", after))
    ]
    return _page(title, of, difference_fragment(before, after, value, title), tables, facts)


def library() -> str:
    """What a page that embeds fragments holds once, before the first of them: the style and script
    elements.
    """
    return str(
        _template("library").render(
            style=_static("flamegraph.css"), scripts=[_static(n) for n in _scripts()]
        )
    )


def fragment(profiles: Sequence[tuple[str, Profile]], value: str, title: str) -> str:
    """The flame graph of :func:`page` as an element of another page, which may have several; see
    :func:`library`.
    """
    numbered = _Names()
    views = [_view(name, p, value, numbered) for name, p in profiles]
    return _fragment(_value(profiles[0][1], value), title, numbered, views, difference=False)


def difference_fragment(before: Profile, after: Profile, value: str, title: str) -> str:
    """As :func:`fragment`, of :func:`difference`."""
    numbered = _Names()
    return _fragment(
        _value(after, value),
        title,
        numbered,
        _views_of_difference(before, after, value, numbered),
        difference=True,
    )


def _value(profile: Profile, key: str) -> Value:
    return profile.values[profile.column(key)]


def _view(name: str, profile: Profile, value: str, numbered: _Names) -> _View:
    root = call_tree.build([(profile, value)])
    nodes, left_out = _flat(root, lambda node: node.total[0], lambda _: [], numbered)
    return _View(
        name, f"whole width: {amount(root.total[0], _value(profile, value).unit)}", nodes, left_out
    )


def _views_of_difference(
    before: Profile, after: Profile, value: str, numbered: _Names
) -> list[_View]:
    columns = [(before, value), (after, value)]
    has_errors = all(_has(p, value + profile_tables.VARIANCE) for p in (before, after))
    if has_errors:
        columns += [
            (before, value + profile_tables.VARIANCE),
            (after, value + profile_tables.VARIANCE),
        ]
    root = call_tree.build(columns)
    grown, shrunk = _by_sign(root)
    unit = _value(after, value).unit

    def more(node: Node) -> list[float | None]:
        old, new, *variances = node.total
        return [
            _rounded(old),
            _rounded(new),
            _rounded(math.sqrt(sum(variances))) if has_errors else None,
        ]

    widths: tuple[tuple[str, Callable[[Node], float]], ...] = (
        ("after", lambda node: node.total[1]),
        ("before", lambda node: node.total[0]),
        ("what grew", lambda node: grown[id(node)]),
        ("what shrank", lambda node: shrunk[id(node)]),
    )
    views = []
    for name, width in widths:
        nodes, left_out = _flat(root, width, more, numbered)
        views.append(_View(name, f"whole width: {amount(width(root), unit)}", nodes, left_out))
    return views


def _by_sign(root: Node) -> tuple[dict[int, float], dict[int, float]]:
    """By node's id: how much the stacks that it is on have grown, those that grew alone; and
    shrunk.
    """
    grown: dict[int, float] = {}
    shrunk: dict[int, float] = {}
    for _, node in reversed(list(call_tree.walk(root))):
        below = list(node.children.values())
        own = (
            node.total[1] - node.total[0] - sum(child.total[1] - child.total[0] for child in below)
        )
        grown[id(node)] = max(0.0, own) + sum(grown[id(child)] for child in below)
        shrunk[id(node)] = max(0.0, -own) + sum(shrunk[id(child)] for child in below)
    return grown, shrunk


def _flat(
    root: Node,
    width: Callable[[Node], float],
    more: Callable[[Node], list[float | None]],
    numbered: _Names,
) -> tuple[list[list[float | None]], int]:
    """A tree as a list, a parent before its children and the widest first, and how many frames were
    too narrow to be in it.
    """
    kept = _widest(root, width)
    nodes: list[list[float | None]] = []
    waiting = [(0, root)]
    while waiting:
        level, node = waiting.pop()
        nodes.append(
            [
                level,
                -1 if node is root else numbered.number(node.frame),
                _rounded(width(node)),
                *more(node),
            ]
        )
        below = [child for child in node.children.values() if id(child) in kept]
        waiting += [
            (level + 1, child)
            for child in sorted(below, key=lambda child: (width(child), child.frame.function))
        ]
    return nodes, sum(1 for _, node in call_tree.walk(root) if width(node) > 0) - len(nodes)


def _widest(root: Node, width: Callable[[Node], float]) -> set[int]:
    """The ids of the widest nodes; as none is wider than its parent, they are a tree of
    their own.
    """
    least = width(root) * _SMALLEST
    kept: set[int] = set()
    # Among equals the one that came first; a node itself has no order.
    arrivals = itertools.count()
    waiting = [(-width(root), next(arrivals), root)]
    while waiting and len(kept) < _MOST:
        node = heapq.heappop(waiting)[-1]
        kept.add(id(node))
        for child in node.children.values():
            if width(child) > 0 and width(child) >= least:
                heapq.heappush(waiting, (-width(child), next(arrivals), child))
    return kept


def _fragment(of: Value, title: str, numbered: _Names, views: list[_View], difference: bool) -> str:
    shown = {row[4] for row in numbered.rows}
    data = {
        "title": title,
        "value": {"title": of.title, "unit": of.unit},
        "difference": difference,
        "names": numbered.rows,
        "views": [
            {"name": v.name, "note": v.note, "nodes": v.nodes, "leftOut": max(0, v.left_out)}
            for v in views
        ],
    }
    legend = [(key, text) for key, text in frame_kinds.KINDS.items() if key in shown]
    return str(
        _template("fragment").render(
            title=title, value=of, views=views, legend=legend, difference=difference, data=data
        )
    )


def _functions(name: str, profile: Profile, of: Value) -> _Table:
    whole = profile.total(of.key)
    rows = [
        (
            cpp_names.short(f.name),
            amount(f.inclusive, of.unit),
            _share(f.inclusive, whole),
            amount(f.own, of.unit),
            f.module,
        )
        for f in profile_tables.functions(profile, of.key)[:_ROWS]
    ]
    return name, ("function", "inclusive", "share", "self", "module"), rows


def _stacks(name: str, profile: Profile, of: Value) -> _Table:
    whole = profile.total(of.key)
    found = profile_tables.stacks(profile, of.key)[:_ROWS]
    errors = _errors([row.error for row in found], of)
    rows = [
        (
            profile_tables.innermost(row.frames),
            amount(row.value, of.unit),
            *error,
            _share(row.value, whole),
        )
        for row, error in zip(found, errors, strict=True)
    ]
    return name, ("innermost first", of.title, *_heading(errors), "share"), rows


def _growth(name: str, found: Sequence[profile_tables.Growth], of: Value) -> _Table:
    errors = _errors([row.error for row in found], of)
    rows = [
        (
            profile_tables.innermost(row.frames),
            signed(row.grown, of.unit),
            *error,
            amount(row.before, of.unit),
            amount(row.after, of.unit),
        )
        for row, error in zip(found, errors, strict=True)
    ]
    return name, ("", "difference", *_heading(errors), "before", "after"), rows


def _errors(errors: Sequence[float | None], of: Value) -> list[tuple[str, ...]]:
    """A cell for each, or none for any where they are not known."""
    return [() if error is None else (amount(error, of.unit),) for error in errors]


def _heading(errors: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return ("± standard error",) if any(errors) else ()


def _page(
    title: str, of: Value, graph: str, tables: Sequence[_Table],
    facts: Sequence[tuple[str, Sequence[tuple[str, str]]]],
) -> str:  # fmt: skip
    return str(
        _template("page").render(
            title=title,
            value=of,
            graph=Markup(graph),
            library=Markup(library()),
            tables=tables,
            facts=facts,
            style=_static("page.css"),
            version=dballoc.__version__,
        )
    )


def _totals(profile: Profile, of: Value) -> list[tuple[str, str]]:
    lines = [("of", profile.title), (of.title, amount(profile.total(of.key), of.unit))]
    if profile.seconds:
        lines.append(("covers", amount(profile.seconds, "seconds")))
    truncated = sum(1 for sample in profile.samples if sample.truncated)
    lines.append(
        (
            "call stacks",
            f"{len(profile.samples):,}"
            + (f", {truncated:,} without their outermost frames" if truncated else ""),
        )
    )
    return lines


def _share(number: float, whole: float) -> str:
    return f"{number / whole:.1%}" if whole else "–"


def _has(profile: Profile, key: str) -> bool:
    return any(value.key == key for value in profile.values)


def _rounded(number: float) -> float:
    """Six significant digits: more would only make the page larger."""
    short = float(f"{number:.6g}")
    return int(short) if short == int(short) else short


def _scripts() -> tuple[str, ...]:
    return (*_LIBRARIES, "flamegraph.js")


@cache
def _static(name: str) -> Markup:
    """Of our own package: nothing in it ends the element that it stands in, which a test checks."""
    return Markup((files(__package__) / "static" / name).read_text(encoding="utf-8"))


@cache
def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dballoc.profile"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    # Jinja's own filter writes JSON that cannot end a script element.
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment.get_template(f"{name}.html.j2")
