"""The pictures of an explanation: waterfall, treemap, bounds, a series. Specifications for the
page; no I/O.
"""

from collections.abc import Sequence
from typing import Any

import altair as alt

from dballoc.explain.attribution.ledger import Ledger
from dballoc.explain.difference import REST
from dballoc.explain.explanation import Explanation
from dballoc.numbers import mebibytes, percent, with_unit

_GROUPS = ("server", "heap", "threads", "files", "rest")

# Of RSS: what is less than this is one bar with its likes.
_SMALL = 0.004

# A series' areas: so many owners of their own, so many points at most (a pixel each or two).
_AREAS, _POINTS = 7, 300
_OTHER = "other lines"

# Of a picture whose rows are names.
_NAMES = alt.Axis(grid=False, ticks=False, domain=False, labelLimit=230)

_TIMES = alt.Axis(grid=False, tickCount=8, format=",~f", labelOverlap=True)

# From which share of RSS on a bar has its figure at its left.
_RIGHT = 0.4

_Rows = list[dict[str, Any]]


def waterfall(ledger: Ledger) -> dict[str, Any]:
    """RSS built up line by line, the rest included; bars begin where the one before ended."""
    rows: _Rows = []
    at = 0
    for group, owner, size, note in _pieces(ledger):
        begin, at = at, at + size
        ends = {"from": begin / 2**20, "to": at / 2**20}
        rows.append(
            {"owner": owner, "group": group, **ends, **_words(size, ledger.rss), "note": note}
        )
    whole = {"from": 0, "to": ledger.rss / 2**20, **_words(ledger.rss, ledger.rss)}
    rows.append({"owner": f"RSS, {with_unit(ledger.rss)}", "group": "RSS", **whole, "note": ""})
    base = alt.Chart(alt.InlineData(values=rows))
    order = [row["owner"] for row in rows]
    # A figure stands behind its bar, or before one at the right; room for what does neither.
    room = alt.Scale(domain=[0, ledger.rss / 2**20 * 1.05], nice=False)
    bars = base.mark_bar(height={"band": 0.72}).encode(
        x=alt.X(
            "from:Q", title="resident, MiB", axis=alt.Axis(format=",~r", tickCount=6), scale=room
        ),
        x2="to:Q",
        y=alt.Y("owner:N", sort=order, title=None, axis=_NAMES),
        color=alt.Color("group:N", title=None, scale=alt.Scale(domain=_domain(rows))),
        tooltip=_tooltip("note"),
    )
    steps = base.transform_filter("datum.group != 'RSS'").encode(
        y=alt.Y("owner:N", sort=order), text="words:N"
    )
    right = f"datum.from > {_RIGHT * ledger.rss / 2**20}"
    behind = steps.transform_filter(f"!({right})").mark_text(align="left", dx=5, style="label")
    before = steps.transform_filter(right).mark_text(align="right", dx=-5, style="label")
    behind, before = (
        behind.encode(x=alt.X("to:Q", scale=room)),
        before.encode(x=alt.X("from:Q", scale=room)),
    )
    return _specification(bars + behind + before, 26 * len(rows))


def _pieces(ledger: Ledger) -> list[tuple[str, str, int, str]]:
    """(group, owner, bytes, note) of each bar: groups together, the largest first, small ones as
    one for each group.
    """
    groups = list(dict.fromkeys([*_GROUPS, *(line.group for line in ledger.lines)]))
    found = []
    for group in groups:
        sizes: dict[str, int] = {}
        for line in ledger.lines:
            if line.group == group:
                sizes[str(line.owner)] = sizes.get(str(line.owner), 0) + line.resident
        large = sorted(
            (x for x in sizes.items() if x[1] >= _SMALL * ledger.rss), key=lambda x: -x[1]
        )
        small = {owner: size for owner, size in sizes.items() if size < _SMALL * ledger.rss}
        found += [(group, owner, size, "") for owner, size in large]
        if len(small) == 1:
            found += [(group, owner, size, "") for owner, size in small.items()]
        elif small:
            found.append(
                (
                    group,
                    f"{len(small)} small lines ({group})",
                    sum(small.values()),
                    ", ".join(small),
                )
            )
    return [*found, ("rest", REST.partition(":")[0], ledger.rest, "pages that no class claims")]


def treemap(ledger: Ledger) -> dict[str, Any]:
    """Group, then owner, by area: Vega's treemap transform, which squarifies."""
    rows: _Rows = [{"id": "RSS", "parent": None}]
    for group in dict.fromkeys(line.group for line in ledger.lines):
        rows.append({"id": f"group {group}", "parent": "RSS"})
    sizes: dict[tuple[str, str], int] = {}
    for line in ledger.lines:
        key = line.group, str(line.owner)
        sizes[key] = sizes.get(key, 0) + line.resident
    for (group, owner), size in sizes.items():
        rows.append(
            {
                "id": f"{group}/{owner}",
                "parent": f"group {group}",
                "group": group,
                "owner": owner,
                "bytes": size,
                **_words(size, ledger.rss),
            }
        )
    if ledger.rest > 0:
        rows.append({"id": "group rest", "parent": "RSS"})
        rows.append(
            {
                "id": "rest/rest",
                "parent": "group rest",
                "group": "rest",
                "owner": "rest",
                "bytes": ledger.rest,
                **_words(ledger.rest, ledger.rss),
            }
        )
    wide = "datum.x1 - datum.x0"
    tall = "datum.y1 - datum.y0"
    label: dict[str, Any] = {
        "type": "text", "from": {"data": "leaves"}, "interactive": False,
        "encode": {"enter": {"baseline": {"value": "top"}, "fontSize": {"value": 12}}},
    }  # fmt: skip

    def words(text: str, down: int, room: int, **style: Any) -> dict[str, Any]:
        shown = f"{wide} > 44 && {tall} > {room} ? {text} : ''"
        update = {
            "x": {"signal": "datum.x0 + 6"},
            "y": {"signal": f"datum.y0 + {down}"},
            "text": {"signal": shown},
            "limit": {"signal": f"max(0, {wide} - 12)"},
            **style,
        }
        return label | {"encode": label["encode"] | {"update": update}}

    across = "max(280, isFinite(containerSize()[0]) ? containerSize()[0] : 640)"
    return {
        "height": 380,
        "padding": 0,
        "autosize": {"type": "none"},
        "signals": [
            {"name": "width", "init": across, "on": [{"events": "window:resize", "update": across}]}
        ],
        "data": [
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
        ],
        "scales": [
            {"name": "color", "type": "ordinal", "domain": _domain(rows[1:]), "range": "category"}
        ],
        "legends": [],
        "marks": [
            {
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
            },
            words("datum.owner", 6, 22),
            words("datum.words + ', ' + datum.share", 22, 40, opacity={"value": 0.8}),
        ],
    }


def bounds(found: Explanation) -> dict[str, Any] | None:
    """What is resident, what the configuration allows, what there is: bars beside each other, none
    within another.
    """
    allowed, room = found.bounds, found.room
    if allowed is None:
        return None
    connections = f"{allowed.connections} connections"
    bars = [
        ("resident now", [("resident", found.ledger.rss)]),
        (
            "allowed: all connections",
            [("once", allowed.once), ("connections", allowed.connections * allowed.connection)],
        ),
        (
            "allowed: and all at work",
            [
                ("once", allowed.once),
                ("connections", allowed.connections * allowed.connection),
                ("sort, join, temporary table", allowed.connections * allowed.statement),
            ],
        ),
        *(
            [("limit of the cgroup", [("there is", room.limit)])]
            if room.limit and room.limit < room.machine
            else []
        ),
        ("memory of the machine", [("there is", room.machine)]),
    ]
    rows: _Rows = []
    for bar, parts in bars:
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
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(height={"band": 0.7})
        .encode(
            x=alt.X("from:Q", title="GiB", axis=alt.Axis(format=",~r", tickCount=6)),
            x2="to:Q",
            y=alt.Y("bar:N", sort=[bar for bar, _ in bars], title=None, axis=_NAMES),
            color=alt.Color(
                "part:N",
                title=None,
                scale=alt.Scale(domain=list(dict.fromkeys(row["part"] for row in rows))),
            ),
            tooltip=[
                alt.Tooltip("bar:N", title="what"),
                "part:N",
                alt.Tooltip("words:N", title="size"),
                "of:N",
            ],
        )
    )
    return _specification(chart, 30 * len(bars))


def series(looks: Sequence[Explanation]) -> dict[str, Any] | None:
    """RSS over time as areas: the lines that are largest or changed most, and all others as one."""
    if len(looks) < 2:
        return None
    thinned = [
        looks[round(i * (len(looks) - 1) / (min(len(looks), _POINTS) - 1))]
        for i in range(min(len(looks), _POINTS))
    ]
    sizes = [_by_owner(look.ledger) for look in thinned]
    owners = {owner for found in sizes for owner in found}
    spread = {
        o: max(f.get(o, 0) for f in sizes) + 4 * abs(sizes[-1].get(o, 0) - sizes[0].get(o, 0))
        for o in owners
    }
    shown = sorted(owners, key=lambda o: -spread[o])[:_AREAS]
    began = thinned[0].taken
    whole = thinned[-1].taken - began
    unit, length = ("minutes", 60.0) if whole < 3 * 3600 else ("hours", 3600.0)
    if whole < 180:
        unit, length = "seconds", 1.0
    rows: _Rows = []
    for look, found in zip(thinned, sizes, strict=True):
        parts = {owner: found.get(owner, 0) for owner in shown}
        parts[_OTHER] = look.ledger.rss - sum(parts.values())
        for place, (owner, size) in enumerate(parts.items()):
            rows.append(
                {
                    "time": float(f"{(look.taken - began) / length:.6g}"),
                    "owner": owner,
                    "mib": float(f"{size / 2**20:.6g}"),
                    "place": place,
                    **_words(size, look.ledger.rss),
                }
            )
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_area(line=False, opacity=0.85)
        .encode(
            x=alt.X(
                "time:Q",
                title=f"{unit} since the first look",
                axis=_TIMES,
                scale=alt.Scale(nice=False),
            ),
            y=alt.Y("mib:Q", title="resident, MiB", stack="zero", axis=alt.Axis(format=",~r")),
            color=alt.Color("owner:N", title=None, scale=alt.Scale(domain=[*shown, _OTHER])),
            order=alt.Order("place:Q"),
            tooltip=_tooltip(),
        )
    )
    return _specification(chart, 300)


def legend(ledger: Ledger) -> list[str]:
    """The names in the pictures' legends."""
    return [str(line.owner) for line in ledger.lines]


def _by_owner(ledger: Ledger) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in ledger.lines:
        found[str(line.owner)] = found.get(str(line.owner), 0) + line.resident
    return found


def _words(size: int, rss: int) -> dict[str, str]:
    return {
        "words": with_unit(size) if size >= 0 else f"{mebibytes(size)} MiB",
        "share": percent(size / rss if rss else None),
    }


def _tooltip(*more: str) -> list[alt.Tooltip]:
    named = [
        alt.Tooltip("owner:N"),
        alt.Tooltip("words:N", title="resident"),
        alt.Tooltip("share:N", title="of RSS"),
    ]
    return [*named, *(alt.Tooltip(f"{name}:N") for name in more)]


def _domain(rows: _Rows) -> list[str]:
    """Groups in one order in every picture, so that each has one colour."""
    return list(dict.fromkeys(["RSS", *_GROUPS, *(row["group"] for row in rows if "group" in row)]))


def _specification(chart: alt.Chart | alt.LayerChart, height: int) -> dict[str, Any]:
    """As wide as its container, without a theme."""
    found: dict[str, Any] = chart.properties(height=height).to_dict()
    for key in ("$schema", "config"):
        found.pop(key, None)
    return found | {
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": 2,
    }
