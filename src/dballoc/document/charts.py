"""A small grammar of charts: layers of marks over rows, as Vega-Lite. Colours are the page's
theme's.

A channel is a dictionary, so the same axis for another field is ``axis | {"field": "low"}``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# So that colour is never alone: these differ by shape and dash too.
_SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
_DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 2], [12, 4], [1, 3], [6, 2, 1, 2, 1, 2])

# Pixels; a chart in the page takes its container's width instead.
WIDTH = 640

Channel = dict[str, Any]
Layer = dict[str, Any]
Rows = list[dict[str, Any]]

# How amounts are written on an axis.
AMOUNTS: dict[str, Any] = {"format": ",~r", "tickCount": 6}

# The legend of a chart with points. All channels of a chart share a legend, or there would be one
# for each.
POINTS = {"symbolStrokeWidth": 0}

# The same for shapes that say nothing of variants: seen on light and dark pages alike.
GREY_POINTS = {"symbolStrokeWidth": 0, "symbolFillColor": "#808080"}


@dataclass(frozen=True)
class Variants:
    """How the variants are told apart, in the same way in every chart. The baseline is the
    first.
    """

    names: list[str]

    def encode_color(self, legend: Channel | None) -> dict[str, Channel]:
        """Return the colours' channel; the colours come from the theme's ``range.category``."""
        return {"color": encode_names("variant", self.names, legend=legend)}

    def encode_points(self, legend: Channel | None) -> dict[str, Channel]:
        """Return the channels of points: colour and shape."""
        shape = encode_names("variant", self.names, self._repeat(_SHAPES), legend=legend)
        return self.encode_color(legend) | {"shape": shape}

    def encode_lines(self, legend: Channel | None) -> dict[str, Channel]:
        """Return the channels of lines: colour and dash."""
        dash = encode_names("variant", self.names, self._repeat(_DASHES), legend=legend)
        return self.encode_color(legend) | {"strokeDash": dash}

    def _repeat(self, values: Sequence[Any]) -> list[Any]:
        return [values[i % len(values)] for i in range(len(self.names))]


def encode_names(
    field: str, domain: Iterable[str], shown: Sequence[Any] = (), **properties: Any
) -> Channel:
    """Return the channel of a field of names, without a title. ``shown``: what each name of the
    domain looks like.
    """
    scale = {"domain": list(domain)} | ({"range": list(shown)} if shown else {})
    return {"field": field, "type": "nominal", "title": None, "scale": scale, **properties}


def make_axis(field: str, title: str, scale: Channel | None = None, **axis: Any) -> Channel:
    """Return the axis of a field of numbers."""
    channel = {"field": field, "type": "quantitative", "title": title}
    return channel | ({"scale": scale} if scale else {}) | ({"axis": axis} if axis else {})


def make_names_axis(field: str, order: Sequence[str], **axis: Any) -> Channel:
    """Return the axis of a field of names, one a row, in that order."""
    bare = {"grid": False, "ticks": False, "domain": False}
    return {
        "field": field,
        "type": "nominal",
        "sort": list(order),
        "title": None,
        "axis": bare | axis,
    }


def make_tips(fields: Mapping[str, str | Channel]) -> list[Channel]:
    """Return what a mark tells of itself: a title for each field, or further properties. A field
    with ``:Q`` behind it holds numbers.
    """
    tips = []
    for key, title in fields.items():
        field, _, kind = key.partition(":")
        tip = {"field": field, "type": "quantitative" if kind == "Q" else "nominal"}
        tips.append(tip | (title if isinstance(title, dict) else {"title": title} if title else {}))
    return tips


def span(axis: str, channel: Channel, low: str = "low", high: str = "high") -> dict[str, Channel]:
    """Return the channels of a mark from one field to another along an axis, ``x`` or ``y``."""
    return {axis: channel | {"field": low}, f"{axis}2": {"field": high}}


# What a layer can take from its rows; all other properties are its mark's.
_CHANNELS = frozenset(
    "x x2 y y2 yOffset color detail opacity order shape strokeDash text tooltip".split()
)


def draw(rows: Rows, mark: str, where: str = "", /, **properties: Any) -> Layer:
    """Return a layer of one mark for each row, or of one line for all. ``where``: an expression
    that holds for the rows to draw; ``properties``: of the mark, or channels.
    """
    channels = {
        key: value
        for key, value in properties.items()
        if key in _CHANNELS and (isinstance(value, dict) or key == "tooltip")
    }
    marks = {key: value for key, value in properties.items() if key not in channels}
    layer: Layer = {"data": rows, "mark": {"type": mark, **marks}, "encoding": channels}
    return layer | {"transform": [{"filter": where}]} if where else layer


def draw_points(rows: Rows, size: int, where: str = "", /, **properties: Any) -> Layer:
    """Return a layer of a full point for each row; arguments as for :func:`draw`."""
    full = {"filled": True, "size": size, "opacity": 1}
    return draw(rows, "point", where, **full | properties)


def is_valid(field: str) -> str:
    """Return the expression that holds for the rows that have a field."""
    return f"isValid(datum.{field})"


def make_chart(height: int, layers: Sequence[Layer]) -> dict[str, Any]:
    """Return layers as one chart, without a theme. The rows of several layers are in it once."""
    names: dict[int, str] = {}
    datasets: dict[str, Rows] = {}
    drawn = []
    for layer in layers:
        rows = layer["data"]
        name = names.setdefault(id(rows), f"rows-{len(names)}")
        if name not in datasets:
            datasets[name] = [{k: round_number(v) for k, v in row.items()} for row in rows]
        drawn.append(layer | {"data": {"name": name}})
    return {"height": height, "layer": drawn, "datasets": datasets}


def round_number(value: Any) -> Any:
    """Round a number to six significant digits: more would only make the page larger."""
    return float(f"{value:.6g}") if isinstance(value, float) else value
