"""Flame graphs as HTML that loads nothing from elsewhere: as a page, or as elements of another one.

d3-flame-graph draws them on d3 (``static/``, with their licences). A difference has four views,
with frames as wide as after, as before, as what grew, or as what shrank.
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
from dballoc.profile.amounts import format_amount, format_signed_amount
from dballoc.profile.call_tree import Node
from dballoc.profile.model import Frame, Profile, Value
from dballoc.profile.symbols import cpp_names

# A page leaves out frames below this share of the total, which no screen shows, and has at most so
# many frames, the widest, so that a profile of many stacks still opens at once.
_SMALLEST_SHARE = 1 / 20_000
_MAX_FRAMES = 20_000

# Lines of a page's tables.
_MAX_TABLE_ROWS = 25

_LIBRARIES = ("d3.min.js", "d3-flamegraph.umd.min.js")


# A name, its columns, its rows.
_Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]


@dataclass(frozen=True)
class _ButtonView:
    """What a button shows. ``nodes``: level, number of the name, width, and for a difference the
    values before and after and its error; ``left_out``: how many frames were too narrow.
    """

    name: str
    note: str
    nodes: list[list[float | None]]
    left_out: int


class _Names:
    """Functions, numbered as they appear: name, label, module, place in the source, kind."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, str], int] = {}
        self.rows: list[list[str]] = []

    def get_number(self, frame: Frame) -> int:
        key = frame.function, frame.module
        if key not in self.numbers:
            self.numbers[key] = len(self.rows)
            place = f"{frame.file}:{frame.line}" if frame.file else ""
            self.rows.append(
                [
                    frame.function,
                    cpp_names.shorten_name(frame.function),
                    frame.module,
                    place,
                    frame_kinds.classify_frame(frame),
                ]
            )
        return self.numbers[key]


def render_page(profiles: Sequence[tuple[str, Profile]], value: str, title: str) -> str:
    """Render an HTML page with the flame graph of a value, and buttons for the named profiles.
    Raises KeyError if one of them does not have the value.
    """
    measure = _find_value(profiles[0][1], value)
    tables = []
    for name, p in profiles:
        headings = f"{name}: functions", f"{name}: call stacks"
        of_functions, of_stacks = headings if len(profiles) > 1 else ("Functions", "Call stacks")
        tables += [
            _make_function_table(of_functions, p, measure),
            _make_stack_table(of_stacks, p, measure),
        ]
    facts = [(name, [*_list_totals(p, measure), *p.facts.items()]) for name, p in profiles]
    return _render_page(title, measure, render_fragment(profiles, value, title), tables, facts)


def render_difference_page(before: Profile, after: Profile, value: str, title: str) -> str:
    """Render an HTML page of what grew and what shrank between two profiles. Raises KeyError as
    :func:`render_page`.
    """
    measure = _find_value(after, value)
    tables = []
    for unit, growths in (
        ("call stack", profile_tables.rank_growth(before, after, value)),
        ("function", profile_tables.rank_growth_by_function(before, after, value)),
    ):
        both = profile_tables.split_growth(growths, _MAX_TABLE_ROWS)
        tables += [
            _make_growth_table(f"What {direction}, by {unit}", changed, measure)
            for direction, changed in zip(("grew", "shrank"), both, strict=True)
            if changed
        ]
    facts = [
        (f"{name}: {p.title}", [*_list_totals(p, measure), *p.facts.items()])
        for name, p in (("before", before), ("after", after))
    ]
    return _render_page(
        title, measure, render_difference_fragment(before, after, value, title), tables, facts
    )


def render_library() -> str:
    """Render the style and script elements that a page with fragments needs once, before the first
    of them.
    """
    return str(
        _load_template("library").render(
            style=_read_static_file("flamegraph.css"),
            scripts=[_read_static_file(n) for n in _list_scripts()],
        )
    )


def render_fragment(profiles: Sequence[tuple[str, Profile]], value: str, title: str) -> str:
    """Render the flame graph of :func:`render_page` as an element of another page. It may have
    several; see :func:`render_library`.
    """
    numbered = _Names()
    views = [_make_view(name, p, value, numbered) for name, p in profiles]
    return _render_fragment(
        _find_value(profiles[0][1], value), title, numbered, views, difference=False
    )


def render_difference_fragment(before: Profile, after: Profile, value: str, title: str) -> str:
    """Render the graph of :func:`render_difference_page` as an element of another page."""
    numbered = _Names()
    return _render_fragment(
        _find_value(after, value),
        title,
        numbered,
        _make_difference_views(before, after, value, numbered),
        difference=True,
    )


def _find_value(profile: Profile, key: str) -> Value:
    return profile.values[profile.column(key)]


def _make_view(name: str, profile: Profile, value: str, numbered: _Names) -> _ButtonView:
    root = call_tree.build_call_tree([(profile, value)])
    nodes, left_out = _flatten_tree(root, lambda node: node.total[0], lambda _: [], numbered)
    return _ButtonView(
        name,
        f"whole width: {format_amount(root.total[0], _find_value(profile, value).unit)}",
        nodes,
        left_out,
    )


def _make_difference_views(
    before: Profile, after: Profile, value: str, numbered: _Names
) -> list[_ButtonView]:
    columns = [(before, value), (after, value)]
    has_errors = all(_has_value(p, value + profile_tables.VARIANCE) for p in (before, after))
    if has_errors:
        columns += [
            (before, value + profile_tables.VARIANCE),
            (after, value + profile_tables.VARIANCE),
        ]
    root = call_tree.build_call_tree(columns)
    grown, shrunk = _sum_growth_by_sign(root)
    unit = _find_value(after, value).unit

    def difference_columns(node: Node) -> list[float | None]:
        old, new, *variances = node.total
        return [
            _round_to_six_digits(old),
            _round_to_six_digits(new),
            _round_to_six_digits(math.sqrt(sum(variances))) if has_errors else None,
        ]

    widths: tuple[tuple[str, Callable[[Node], float]], ...] = (
        ("after", lambda node: node.total[1]),
        ("before", lambda node: node.total[0]),
        ("what grew", lambda node: grown[id(node)]),
        ("what shrank", lambda node: shrunk[id(node)]),
    )
    views = []
    for name, width in widths:
        nodes, left_out = _flatten_tree(root, width, difference_columns, numbered)
        views.append(
            _ButtonView(name, f"whole width: {format_amount(width(root), unit)}", nodes, left_out)
        )
    return views


def _sum_growth_by_sign(root: Node) -> tuple[dict[int, float], dict[int, float]]:
    """Return by node's id how much the stacks through it grew in all, counting those that grew
    alone; and the same for those that shrank.
    """
    grown: dict[int, float] = {}
    shrunk: dict[int, float] = {}
    for _, node in reversed(list(call_tree.walk_call_tree(root))):
        children = list(node.children.values())
        self_growth = (
            node.total[1]
            - node.total[0]
            - sum(child.total[1] - child.total[0] for child in children)
        )
        grown[id(node)] = max(0.0, self_growth) + sum(grown[id(child)] for child in children)
        shrunk[id(node)] = max(0.0, -self_growth) + sum(shrunk[id(child)] for child in children)
    return grown, shrunk


def _flatten_tree(
    root: Node,
    width: Callable[[Node], float],
    columns: Callable[[Node], list[float | None]],
    numbered: _Names,
) -> tuple[list[list[float | None]], int]:
    """Return a tree as a list, a parent before its children and the widest first, and how many
    frames were too narrow to be in it.
    """
    kept = _select_widest(root, width)
    nodes: list[list[float | None]] = []
    pending = [(0, root)]
    while pending:
        level, node = pending.pop()
        nodes.append(
            [
                level,
                -1 if node is root else numbered.get_number(node.frame),
                _round_to_six_digits(width(node)),
                *columns(node),
            ]
        )
        children = [child for child in node.children.values() if id(child) in kept]
        pending += [
            (level + 1, child)
            for child in sorted(children, key=lambda child: (width(child), child.frame.function))
        ]
    return nodes, sum(1 for _, node in call_tree.walk_call_tree(root) if width(node) > 0) - len(
        nodes
    )


def _select_widest(root: Node, width: Callable[[Node], float]) -> set[int]:
    """Return the ids of the widest nodes. As none is wider than its parent, they form a tree."""
    least = width(root) * _SMALLEST_SHARE
    kept: set[int] = set()
    # Breaks ties, for nodes have no order: the one that came first wins.
    arrivals = itertools.count()
    pending = [(-width(root), next(arrivals), root)]
    while pending and len(kept) < _MAX_FRAMES:
        node = heapq.heappop(pending)[-1]
        kept.add(id(node))
        for child in node.children.values():
            if width(child) > 0 and width(child) >= least:
                heapq.heappush(pending, (-width(child), next(arrivals), child))
    return kept


def _render_fragment(
    measure: Value, title: str, numbered: _Names, views: list[_ButtonView], difference: bool
) -> str:
    shown = {row[4] for row in numbered.rows}
    data = {
        "title": title,
        "value": {"title": measure.title, "unit": measure.unit},
        "difference": difference,
        "names": numbered.rows,
        "views": [
            {"name": v.name, "note": v.note, "nodes": v.nodes, "leftOut": max(0, v.left_out)}
            for v in views
        ],
    }
    legend = [(key, text) for key, text in frame_kinds.KINDS.items() if key in shown]
    return str(
        _load_template("fragment").render(
            title=title, value=measure, views=views, legend=legend, difference=difference, data=data
        )
    )


def _make_function_table(name: str, profile: Profile, measure: Value) -> _Table:
    total = profile.total(measure.key)
    rows = [
        (
            cpp_names.shorten_name(f.name),
            format_amount(f.inclusive, measure.unit),
            _format_share(f.inclusive, total),
            format_amount(f.exclusive, measure.unit),
            f.module,
        )
        for f in profile_tables.rank_functions(profile, measure.key)[:_MAX_TABLE_ROWS]
    ]
    return name, ("function", "inclusive", "share", "self", "module"), rows


def _make_stack_table(name: str, profile: Profile, measure: Value) -> _Table:
    total = profile.total(measure.key)
    call_stacks = profile_tables.rank_stacks(profile, measure.key)[:_MAX_TABLE_ROWS]
    rows = [
        (
            profile_tables.format_innermost(row.frames),
            format_amount(row.value, measure.unit),
            *_format_error(row.error, measure),
            _format_share(row.value, total),
        )
        for row in call_stacks
    ]
    heading = _make_error_heading([row.error for row in call_stacks])
    return name, ("innermost first", measure.title, *heading, "share"), rows


def _make_growth_table(
    name: str, growths: Sequence[profile_tables.ProfileDifference], measure: Value
) -> _Table:
    rows = [
        (
            profile_tables.format_innermost(row.frames),
            format_signed_amount(row.grown, measure.unit),
            *_format_error(row.error, measure),
            format_amount(row.before, measure.unit),
            format_amount(row.after, measure.unit),
        )
        for row in growths
    ]
    heading = _make_error_heading([row.error for row in growths])
    return name, ("", "difference", *heading, "before", "after"), rows


def _format_error(error: float | None, measure: Value) -> tuple[str, ...]:
    """Return a table's cell, or none if the error is not known."""
    return () if error is None else (format_amount(error, measure.unit),)


def _make_error_heading(errors: Sequence[float | None]) -> tuple[str, ...]:
    return () if all(error is None for error in errors) else ("± standard error",)


def _render_page(
    title: str, measure: Value, graph: str, tables: Sequence[_Table],
    facts: Sequence[tuple[str, Sequence[tuple[str, str]]]],
) -> str:  # fmt: skip
    return str(
        _load_template("page").render(
            title=title,
            value=measure,
            graph=Markup(graph),
            library=Markup(render_library()),
            tables=tables,
            facts=facts,
            style=_read_static_file("page.css"),
            version=dballoc.__version__,
        )
    )


def _list_totals(profile: Profile, measure: Value) -> list[tuple[str, str]]:
    lines = [
        ("of", profile.title),
        (measure.title, format_amount(profile.total(measure.key), measure.unit)),
    ]
    if profile.seconds:
        lines.append(("covers", format_amount(profile.seconds, "seconds")))
    truncated = sum(1 for sample in profile.samples if sample.truncated)
    lines.append(
        (
            "call stacks",
            f"{len(profile.samples):,}"
            + (f", {truncated:,} without their outermost frames" if truncated else ""),
        )
    )
    return lines


def _format_share(number: float, total: float) -> str:
    return f"{number / total:.1%}" if total else "–"


def _has_value(profile: Profile, key: str) -> bool:
    return any(value.key == key for value in profile.values)


def _round_to_six_digits(number: float) -> float:
    """Round to six significant digits, as more would only make the page larger."""
    short = float(f"{number:.6g}")
    return int(short) if short == int(short) else short


def _list_scripts() -> tuple[str, ...]:
    return (*_LIBRARIES, "flamegraph.js")


@cache
def _read_static_file(name: str) -> Markup:
    """Read a file of our package. Nothing in it ends the element around it; a test checks that."""
    return Markup((files(__package__) / "static" / name).read_text(encoding="utf-8"))


@cache
def _load_template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dballoc.profile"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    # Jinja's own tojson filter writes JSON that cannot end a script element.
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment.get_template(f"{name}.html.j2")
