"""A chart for a page, and as SVG and PNG files. No browser and no network is needed."""

import re
from typing import Any

import vl_convert

from dballoc.document.chart_theme import make_vega_config
from dballoc.document.charts import WIDTH
from dballoc.document.model import Figure
from dballoc.document.vega_code import VEGA_LITE
from dballoc.ground.files.output_directory import OutputDirectory

# Of a PNG, relative to the SVG.
_SCALE = 2
# Characters that no XML may have (XML 1.0, production 2); to draw one aborts the process.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def fit_container(chart: dict[str, Any]) -> dict[str, Any]:
    """Return a chart as wide as what contains it."""
    return chart | {
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": 2,
    }


def write_chart(figure: Figure, origin: str, directory: OutputDirectory) -> None:
    """Write ``KEY.svg`` and ``KEY.png`` in the light theme. ``origin`` is written under the title.
    Raises OSError if that fails.
    """
    title = {"text": figure.title, "subtitle": origin, "offset": 10}
    spec = fit_container(figure.chart) | {"width": WIDTH, "padding": 12, "title": title}
    svg = vl_convert.vegalite_to_svg(
        make_drawable(spec), vl_version=VEGA_LITE, config=make_vega_config(dark=False)
    )
    directory.write(f"{figure.key}.svg", svg)
    directory.write(f"{figure.key}.png", vl_convert.svg_to_png(svg, scale=_SCALE))


def make_drawable(value: Any) -> Any:
    """Return JSON with U+FFFD for every character that would abort the process."""
    match value:
        case str():
            return _NO_XML.sub("\ufffd", value)
        case list():
            return [make_drawable(item) for item in value]
        case dict():
            return {make_drawable(key): make_drawable(item) for key, item in value.items()}
    return value
