"""What a page's charts need in the page beside Vega's code: their data, and what draws them, in
forms that can stand in a script element.
"""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from dballoc.webpage import chart_theme

_ESCAPES = str.maketrans({c: f"\\u{ord(c):04x}" for c in "&<>\u2028\u2029"})

# Pixels that a legend's entry takes beside its name, and a letter of the name.
_LEGEND_ENTRY, _LETTER = 44, 7


def encode_json_for_script(value: Any) -> str:
    """Return JSON that may stand in a script element: nothing in it can end that element or begin a
    comment.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPES)


def read_drawing_code() -> str:
    """Return the code that draws the charts: each element of class ``chart`` has the figure of its
    ``data-key``.
    """
    return (files(__package__) / "static" / "charts.js").read_text(encoding="utf-8")


def encode_chart_data(figures: Mapping[str, dict[str, Any]], legend: Sequence[str]) -> str:
    """Return the text of the element ``data``: specifications in Vega-Lite or Vega by key, and both
    themes. ``legend``: the names in it; the longest one says how many of them go into a line.
    """
    themes = {
        "light": chart_theme.make_vega_config(dark=False),
        "dark": chart_theme.make_vega_config(dark=True),
    }
    longest = max(map(len, legend), default=0)
    return encode_json_for_script(
        {
            "figures": dict(figures),
            "themes": themes,
            "legendEntry": _LEGEND_ENTRY + _LETTER * longest,
        }
    )
