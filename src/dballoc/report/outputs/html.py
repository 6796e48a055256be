"""The report as one self-contained page: no request leaves it."""

import re
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

import dballoc
from dballoc.profile import flamegraph
from dballoc.report.charts import export
from dballoc.report.outputs.page import Page
from dballoc.webpage import chart_script, style, vega_code

# A number and its per cent sign stay on one line.
_PERCENT = re.compile(r"(?<=\d) %")


def render_html(content: Page, redacted: bool) -> str:
    """Return the report as one HTML page."""
    package = files("dballoc.report")
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_keep_together,
    )
    template = environment.from_string(
        (package / "templates" / "report.html.j2").read_text(encoding="utf-8")
    )
    data = chart_script.encode_chart_data(
        {figure.key: export.make_specification(figure) for figure in content.figures}, content.names
    )
    return template.render(
        content=content,
        redacted=redacted,
        version=dballoc.__version__,
        style=Markup(
            style.read_base_style()
            + (package / "static" / "report.css").read_text(encoding="utf-8")
        ),
        script=Markup(chart_script.read_drawing_code()),
        library=Markup(vega_code.bundle_vega()),
        data=Markup(data),
        flames=Markup(flamegraph.render_library() if content.embeds else ""),
    )


def _keep_together(value: Any) -> Any:
    return _PERCENT.sub("\u00a0%", value) if type(value) is str else value
