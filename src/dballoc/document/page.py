"""Render a page that contains all it needs: charts, the code that draws them, its style."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

import dballoc
from dballoc.document import chart_theme, vega_code

_ESCAPES = str.maketrans({c: f"\\u{ord(c):04x}" for c in "&<>\u2028\u2029"})

# Pixels that a legend's entry takes beside its name, and a letter of the name.
_LEGEND_ENTRY, _LETTER = 44, 7

# A number and its per cent sign stay on one line.
_PERCENT = re.compile(r"(?<=\d) %")


def render_page(
    name: str,
    package: str,
    charts: Mapping[str, dict[str, Any]],
    legend: Sequence[str],
    filters: Mapping[str, Callable[..., Any]] | None = None,
    **values: Any,
) -> str:
    """Return ``templates/NAME.html.j2`` of a package as a page, in the style of all pages and of
    ``static/NAME.css``. ``charts``: Vega-Lite or Vega by the ``data-key`` of the element of class
    ``chart`` that shows it; ``legend``: the names in it; ``values``: what the template shows.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_keep_together,
    )
    environment.filters |= filters or {}
    return environment.get_template(f"{name}.html.j2").render(
        version=dballoc.__version__,
        style=_read(__package__, "base.css") + _read(package, f"{name}.css"),
        script=_read(__package__, "charts.js"),
        library=Markup(vega_code.bundle_vega()),
        data=Markup(_encode_chart_data(charts, legend)),
        **values,
    )


def _read(package: str, name: str) -> Markup:
    return Markup((files(package) / "static" / name).read_text(encoding="utf-8"))


def _keep_together(value: Any) -> Any:
    return _PERCENT.sub("\u00a0%", value) if type(value) is str else value


def encode_json_for_script(value: Any) -> str:
    """Return JSON that may stand in a script element: nothing in it can end that element or begin a
    comment.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPES)


def _encode_chart_data(charts: Mapping[str, dict[str, Any]], legend: Sequence[str]) -> str:
    """Return the text of the element ``data``: the charts by key, and both themes. The longest name
    of the legend says how many of them go into a line.
    """
    themes = {
        "light": chart_theme.make_vega_config(dark=False),
        "dark": chart_theme.make_vega_config(dark=True),
    }
    longest = max(map(len, legend), default=0)
    return encode_json_for_script(
        {
            "figures": dict(charts),
            "themes": themes,
            "legendEntry": _LEGEND_ENTRY + _LETTER * longest,
        }
    )
