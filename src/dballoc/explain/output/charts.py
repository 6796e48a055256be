"""The charts of an explanation: waterfall, treemap, bounds, a series. Vega specifications for the
page; no I/O.
"""

import itertools
from collections.abc import Sequence
from typing import Any

from dballoc.document.chart_files import fit_container
from dballoc.document.charts import (
    AMOUNTS,
    Channel,
    Rows,
    draw,
    encode_names,
    make_axis,
    make_chart,
    make_names_axis,
    make_tips,
)
from dballoc.explain.difference import REST, compute_cpu_share
from dballoc.explain.explanation import Explanation
from dballoc.explain.ledger.ledger import Ledger
from dballoc.ground.numbers import mebibytes, percent, with_unit

_GROUPS = ("server", "heap", "threads", "files", "rest")

# Lines below this share of RSS are one bar for each group.
_SMALL = 0.004

# A series has so many owners with an area of their own, and so many points at most (a pixel or two
# each).
_AREAS, _POINTS = 7, 300
_OTHER = "other lines"

# Pixels for the names of rows.
_NAMES = 230

# A bar that begins beyond this share of RSS has its label at its left.
_RIGHT = 0.4


def draw_waterfall(ledger: Ledger) -> dict[str, Any]:
    """Draw RSS built up line by line, the rest included; each bar begins where the one before
    ends.
    """
    rows: Rows = []
    at = 0
    for group, owner, size, note in _list_bars(ledger):
        begin, at = at, at + size
        ends = {"from": begin / 2**20, "to": at / 2**20}
        rows.append(
            {"owner": owner, "group": group, **ends, **_format_size(size, ledger.rss), "note": note}
        )
    ends = {"from": 0, "to": ledger.rss / 2**20}
    sum_label = f"RSS, {with_unit(ledger.rss)}"
    rows.append(
        {
            "owner": sum_label,
            "group": "RSS",
            **ends,
            **_format_size(ledger.rss, ledger.rss),
            "note": "",
        }
    )
    y = make_names_axis("owner", [row["owner"] for row in rows], labelLimit=_NAMES)
    # A label stands behind its bar, or before one at the right; a margin for those in between.
    scale = {"domain": [0, ledger.rss / 2**20 * 1.05], "nice": False}
    x = make_axis("from", "resident, MiB", scale, **AMOUNTS)
    right = f"datum.from > {_RIGHT * ledger.rss / 2**20}"
    label = {"style": "label", "y": y, "text": {"field": "words", "type": "nominal"}}
    steps = [row for row in rows if row["group"] != "RSS"]
    layers = [
        draw(
            rows, "bar", height={"band": 0.72}, x=x, x2={"field": "to"}, y=y,
            color=encode_names("group", _list_groups(rows)), tooltip=_make_tooltip("note"),
        ),
        draw(
            steps, "text", f"!({right})", align="left", dx=5, x=x | {"field": "to"}, **label
        ),
        draw(steps, "text", right, align="right", dx=-5, x=x, **label),
    ]  # fmt: skip
    return fit_container(make_chart(26 * len(rows), layers))


def _list_bars(ledger: Ledger) -> list[tuple[str, str, int, str]]:
    """Return (group, owner, bytes, note) of each bar: groups together, the largest first, small
    ones as one for each group.
    """
    groups = list(dict.fromkeys([*_GROUPS, *(line.group for line in ledger.lines)]))
    smallest = _SMALL * ledger.rss
    bars = []
    for group in groups:
        sizes = ledger.sum_by_owner(group)
        large = sorted((x for x in sizes.items() if x[1] >= smallest), key=lambda x: -x[1])
        small = {owner: size for owner, size in sizes.items() if size < smallest}
        bars += [(group, owner, size, "") for owner, size in large]
        if len(small) == 1:
            bars += [(group, owner, size, "") for owner, size in small.items()]
        elif small:
            label = f"{len(small)} small lines ({group})"
            bars.append((group, label, sum(small.values()), ", ".join(small)))
    return [*bars, ("rest", REST.partition(":")[0], ledger.rest, "pages that no class claims")]


def draw_treemap(ledger: Ledger) -> dict[str, Any]:
    """Draw group, then owner, by area: Vega's treemap transform, which squarifies."""
    rows = _make_treemap_rows(ledger)
    across = "max(280, isFinite(containerSize()[0]) ? containerSize()[0] : 640)"
    return {
        "height": 380,
        "padding": 0,
        "autosize": {"type": "none"},
        "signals": [
            {"name": "width", "init": across, "on": [{"events": "window:resize", "update": across}]}
        ],
        "data": _make_treemap_data(rows),
        "scales": [
            {
                "name": "color",
                "type": "ordinal",
                "domain": _list_groups(rows[1:]),
                "range": "category",
            }
        ],
        "legends": [],
        "marks": [
            _LEAVES,
            _make_leaf_text("datum.owner", below=6, least_height=22),
            _make_leaf_text(
                "datum.words + ', ' + datum.share",
                below=22,
                least_height=40,
                opacity={"value": 0.8},
            ),
        ],
    }


# The rectangles of the treemap.
_LEAVES: dict[str, Any] = {
    "type": "rect",
    "from": {"data": "leaves"},
    "encode": {
        "update": {
            "x": {"field": "x0"},
            "x2": {"field": "x1"},
            "y": {"field": "y0"},
            "y2": {"field": "y1"},
            "fill": {"scale": "color", "field": "group"},
            "fillOpacity": {"value": 0.28},
            "stroke": {"scale": "color", "field": "group"},
            "strokeWidth": {"value": 1},
            "tooltip": {
                "signal": "{owner: datum.owner, group: datum.group, resident: "
                "datum.words, 'of RSS': datum.share}"
            },
        }
    },
}


def _make_treemap_rows(ledger: Ledger) -> Rows:
    """Return the tree's nodes: RSS, the groups, the owners in them."""
    sizes = ledger.sum_by_line()
    if ledger.rest > 0:
        sizes["rest", "rest"] = sizes.get(("rest", "rest"), 0) + ledger.rest
    rows: Rows = [{"id": "RSS", "parent": None}]
    for group in dict.fromkeys(group for group, _ in sizes):
        rows.append({"id": f"group {group}", "parent": "RSS"})
    for (group, owner), size in sizes.items():
        rows.append(
            {
                "id": f"{group}/{owner}",
                "parent": f"group {group}",
                "group": group,
                "owner": owner,
                "bytes": size,
                **_format_size(size, ledger.rss),
            }
        )
    return rows


def _make_treemap_data(rows: Rows) -> list[dict[str, Any]]:
    return [
        {
            "name": "tree",
            "values": rows,
            "transform": [
                {"type": "stratify", "key": "id", "parentKey": "parent"},
                {
                    "type": "treemap",
                    "field": "bytes",
                    "sort": {"field": "value", "order": "descending"},
                    "round": True,
                    "method": "squarify",
                    "ratio": 1.6,
                    "paddingInner": 2,
                    "size": [{"signal": "width"}, {"signal": "height"}],
                },
            ],
        },
        {
            "name": "leaves",
            "source": "tree",
            "transform": [{"type": "filter", "expr": "!datum.children"}],
        },
    ]


def _make_leaf_text(text: str, below: int, least_height: int, **style: Any) -> dict[str, Any]:
    """Return the mark of a text in each rectangle that is large enough. ``below``: pixels from the
    upper edge; ``least_height``: of the rectangle, in pixels.
    """
    wide, tall = "datum.x1 - datum.x0", "datum.y1 - datum.y0"
    return {
        "type": "text",
        "from": {"data": "leaves"},
        "interactive": False,
        "encode": {
            "enter": {"baseline": {"value": "top"}, "fontSize": {"value": 12}},
            "update": {
                "x": {"signal": "datum.x0 + 6"},
                "y": {"signal": f"datum.y0 + {below}"},
                "text": {"signal": f"{wide} > 44 && {tall} > {least_height} ? {text} : ''"},
                "limit": {"signal": f"max(0, {wide} - 12)"},
                **style,
            },
        },
    }


def draw_bounds(explanation: Explanation) -> dict[str, Any] | None:
    """Draw what is resident, what the configuration allows, and what there is, as bars side by
    side, none within another; None where the server was not asked.
    """
    bars = _list_bounds(explanation)
    if not bars:
        return None
    rows = _make_bound_rows(explanation, bars)
    parts = list(dict.fromkeys(row["part"] for row in rows))
    bar = draw(
        rows,
        "bar",
        height={"band": 0.7},
        x=make_axis("from", "GiB", **AMOUNTS),
        x2={"field": "to"},
        y=make_names_axis("bar", list(bars), labelLimit=_NAMES),
        color=encode_names("part", parts),
        tooltip=make_tips({"bar": "what", "part": "", "words": "size", "of": ""}),
    )
    return fit_container(make_chart(30 * len(bars), [bar]))


def _list_bounds(explanation: Explanation) -> dict[str, list[tuple[str, int]]]:
    """Return the parts of each bar with their bytes; empty where the server was not asked."""
    bounds, room = explanation.bounds, explanation.room
    if bounds is None:
        return {}
    idle = [("once", bounds.once), ("connections", bounds.connections * bounds.connection)]
    statements = ("sort, join, temporary table", bounds.connections * bounds.statement)
    bars = {
        "resident now": [("resident", explanation.ledger.rss)],
        "allowed: all connections": idle,
        "allowed: and all at work": [*idle, statements],
    }
    if room.limit and room.limit < room.machine:
        bars["limit of the cgroup"] = [("there is", room.limit)]
    bars["memory of the machine"] = [("there is", room.machine)]
    return bars


def _make_bound_rows(explanation: Explanation, bars: dict[str, list[tuple[str, int]]]) -> Rows:
    connections = f"{explanation.bounds.connections} connections" if explanation.bounds else ""
    rows: Rows = []
    for bar, parts in bars.items():
        at = 0
        for part, size in parts:
            rows.append(
                {
                    "bar": bar,
                    "part": part,
                    "from": at / 2**30,
                    "to": (at + size) / 2**30,
                    "words": with_unit(size),
                    "of": connections if part not in ("resident", "once", "there is") else "",
                }
            )
            at += size
    return rows


def draw_series(series: Sequence[Explanation]) -> dict[str, Any] | None:
    """Draw RSS over time as areas: the lines that are largest or changed most, and all others as
    one; None of fewer than two snapshots.
    """
    if len(series) < 2:
        return None
    thinned = _thin(series)
    sizes = [explanation.ledger.sum_by_owner() for explanation in thinned]
    owners = _choose_owners(sizes)
    start = thinned[0].timestamp
    unit, unit_seconds = _choose_unit(thinned[-1].timestamp - start)
    rows: Rows = []
    for explanation, by_owner in zip(thinned, sizes, strict=True):
        rss = explanation.ledger.rss
        areas = {owner: by_owner.get(owner, 0) for owner in owners}
        areas[_OTHER] = rss - sum(areas.values())
        for place, (owner, size) in enumerate(areas.items()):
            rows.append(
                {
                    "time": (explanation.timestamp - start) / unit_seconds,
                    "owner": owner,
                    "mib": size / 2**20,
                    "place": place,
                    **_format_size(size, rss),
                }
            )
    area = draw(
        rows,
        "area",
        line=False,
        opacity=0.85,
        x=_make_time_axis(f"{unit} since the first snapshot"),
        y=make_axis("mib", "resident, MiB", format=",~r") | {"stack": "zero"},
        color=encode_names("owner", [*owners, _OTHER]),
        order={"field": "place", "type": "quantitative"},
        tooltip=_make_tooltip(),
    )
    return fit_container(make_chart(300, [area]))


def draw_vsz(series: Sequence[Explanation]) -> dict[str, Any] | None:
    """Draw VSZ over time; None of fewer than two snapshots that have it."""
    measured = _thin([explanation for explanation in series if explanation.usage])
    sizes = [explanation.usage.vsz if explanation.usage else 0 for explanation in measured]
    points = [
        (explanation, size / 2**30, with_unit(size))
        for explanation, size in zip(measured, sizes, strict=True)
    ]
    return _draw_line(points, "VSZ, GiB")


def draw_cpu(series: Sequence[Explanation]) -> dict[str, Any] | None:
    """Draw %CPU over time, each point since the one before; None of fewer than two."""
    measured = _thin([explanation for explanation in series if explanation.usage])
    shares = [(b, compute_cpu_share(a, b)) for a, b in itertools.pairwise(measured)]
    points = [
        (explanation, share * 100, percent(share))
        for explanation, share in shares
        if share is not None
    ]
    return _draw_line(points, "CPU, % of one")


def _thin(series: Sequence[Explanation]) -> list[Explanation]:
    """Return as many as a chart has points for, the first and the last among them."""
    points = min(len(series), _POINTS)
    if points < 2:
        return list(series)
    return [series[round(i * (len(series) - 1) / (points - 1))] for i in range(points)]


def _draw_line(
    points: Sequence[tuple[Explanation, float, str]], title: str
) -> dict[str, Any] | None:
    """Draw (snapshot, value, value in words) over time; None of fewer than two points."""
    if len(points) < 2:
        return None
    start = points[0][0].timestamp
    unit, unit_seconds = _choose_unit(points[-1][0].timestamp - start)
    rows: Rows = [
        {
            "time": (explanation.timestamp - start) / unit_seconds,
            "value": value,
            "words": words,
        }
        for explanation, value, words in points
    ]
    line = draw(
        rows,
        "line",
        point=True,
        x=_make_time_axis(f"{unit} since the first one"),
        y=make_axis("value", title, format=",~r", tickCount=4),
        tooltip=make_tips({"words": title.partition(",")[0]}),
    )
    return fit_container(make_chart(140, [line]))


def _choose_owners(sizes: Sequence[dict[str, int]]) -> list[str]:
    """Return the owners that have an area of their own: the largest, and those that changed most
    from the first snapshot to the last. ``sizes``: bytes by owner, of each snapshot.
    """
    weights = {
        owner: max(by_owner.get(owner, 0) for by_owner in sizes)
        + 4 * abs(sizes[-1].get(owner, 0) - sizes[0].get(owner, 0))
        for owner in {owner for by_owner in sizes for owner in by_owner}
    }
    return sorted(weights, key=lambda owner: -weights[owner])[:_AREAS]


def _choose_unit(seconds: float) -> tuple[str, float]:
    """Return the unit of a time axis of that length, and its seconds."""
    if seconds < 180:
        return "seconds", 1.0
    return ("minutes", 60.0) if seconds < 3 * 3600 else ("hours", 3600.0)


def list_legend(ledger: Ledger) -> list[str]:
    """Return the names in the charts' legends."""
    return [str(line.owner) for line in ledger.lines]


def _format_size(size: int, rss: int) -> dict[str, str]:
    """Return a size as text, and its share of RSS."""
    return {
        "words": with_unit(size) if size >= 0 else f"{mebibytes(size)} MiB",
        "share": percent(size / rss if rss else None),
    }


def _make_time_axis(title: str) -> Channel:
    axis = {"grid": False, "tickCount": 8, "format": ",~f", "labelOverlap": True}
    return make_axis("time", title, {"nice": False}, **axis)


def _make_tooltip(*more: str) -> list[Channel]:
    return make_tips(
        {"owner": "", "words": "resident", "share": "of RSS"} | dict.fromkeys(more, "")
    )


def _list_groups(rows: Rows) -> list[str]:
    """Return the groups in the same order for every chart, so that each has one colour."""
    return list(dict.fromkeys(["RSS", *_GROUPS, *(row["group"] for row in rows if "group" in row)]))
