"""The report as one self-contained page: no request leaves it."""

import json
import re
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

import dballoc
from dballoc.profile import flamegraph
from dballoc.report.charts import export, theme
from dballoc.report.page import Page

_ESCAPES = str.maketrans({c: f"\\u{ord(c):04x}" for c in "&<>\u2028\u2029"})

# A number and its per cent sign stay on one line.
_PERCENT = re.compile(r"(?<=\d) %")

# Pixels that a legend's entry takes beside its name, and a letter of the name.
_LEGEND_ENTRY, _LETTER = 44, 7


def render(content: Page, redacted: bool) -> str:
    """The page's text."""
    package = files(__package__)
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined, finalize=_keep_together
    )
    template = environment.from_string((package / "templates" / "report.html.j2").read_text(encoding="utf-8"))
    longest = max(len(name) for name in content.names)
    data = {
        "figures": {figure.key: export.specification(figure) for figure in content.figures},
        "themes": {"light": theme.config(dark=False), "dark": theme.config(dark=True)},
        "legendEntry": _LEGEND_ENTRY + _LETTER * longest,
    }
    return template.render(
        content=content, redacted=redacted, version=dballoc.__version__,
        style=Markup((package / "static" / "report.css").read_text(encoding="utf-8")),
        script=Markup((package / "static" / "report.js").read_text(encoding="utf-8")),
        flames=Markup(flamegraph.library() if content.embeds else ""),
        library=Markup(f"(() => {{{_inside_script(export.javascript())}}})();"), data=Markup(script_json(data)),
    )  # fmt: skip


def _keep_together(value: Any) -> Any:
    return _PERCENT.sub("\u00a0%", value) if type(value) is str else value


def script_json(value: Any) -> str:
    """JSON that may stand in a script element: nothing in it can end that element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPES)


def _inside_script(code: str) -> str:
    """Our own library's code; in its strings alone could there be an end of the element. It runs in a function of its own (see
    :func:`render`), for its short names, ``d3`` among them, would hide those of the flame graphs' library.
    """
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")
