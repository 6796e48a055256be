"""A chart as a specification for the page, and as SVG and PNG files. No browser and no network is
needed.
"""

from pathlib import Path
from typing import Any

import vl_convert

from dballoc.report.charts.variant_marks import WIDTH, Figure
from dballoc.webpage.chart_theme import make_vega_config
from dballoc.webpage.vega_code import VEGA_LITE

# Of a PNG, relative to the SVG.
_SCALE = 2


def make_specification(figure: Figure) -> dict[str, Any]:
    """Return a figure as Vega-Lite, as wide as its container and without a theme."""
    return figure.specification | {
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": 2,
    }


def write_chart(figure: Figure, origin: str, directory: Path) -> None:
    """Write ``KEY.svg`` and ``KEY.png`` in the light theme. ``origin`` is written under the title.
    OSError if that fails.
    """
    title = {"text": figure.title, "subtitle": origin, "offset": 10}
    spec = make_specification(figure) | {"width": WIDTH, "padding": 12, "title": title}
    svg = vl_convert.vegalite_to_svg(
        spec, vl_version=VEGA_LITE, config=make_vega_config(dark=False)
    )
    (directory / f"{figure.key}.svg").write_text(svg, encoding="utf-8")
    (directory / f"{figure.key}.png").write_bytes(vl_convert.svg_to_png(svg, scale=_SCALE))
