"""What a page's charts need in the page: Vega's code and their data, in forms that can stand in a
script element.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import altair as alt
import vl_convert

from dballoc.webpage import chart_theme

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])

_ESCAPES = str.maketrans({c: f"\\u{ord(c):04x}" for c in "&<>\u2028\u2029"})

# Pixels that a legend's entry takes beside its name, and a letter of the name.
_LEGEND_ENTRY, _LETTER = 44, 7


@functools.cache
def bundle_vega() -> str:
    """Return Vega, Vega-Lite and vega-embed, in a function of their own: their short names, ``d3``
    among them, would hide those of the flame graphs' library. Only in their strings could there be
    an end of the element.
    """
    code: str = vl_convert.javascript_bundle(vl_version=VEGA_LITE)  # type: ignore[call-arg]  # its stub lacks the default
    code = code.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    return f"(() => {{{code}}})();"


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
