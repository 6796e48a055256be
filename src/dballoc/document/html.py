"""A document as one self-contained page: no request leaves it."""

import re
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

import dballoc
from dballoc.document import chart_files
from dballoc.document.model import Document
from dballoc.profile import flamegraph
from dballoc.webpage import chart_script, style, vega_code

# A number and its per cent sign stay on one line.
_PERCENT = re.compile(r"(?<=\d) %")


def render_html(document: Document, redacted: bool) -> str:
    """Return a document as one HTML page. ``redacted``: whether names in it were replaced."""
    package = files("dballoc.document")
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
        {figure.key: chart_files.fit_container(figure.chart) for figure in document.figures},
        document.names,
    )
    return template.render(
        document=document,
        redacted=redacted,
        version=dballoc.__version__,
        style=Markup(
            style.read_base_style()
            + (package / "static" / "report.css").read_text(encoding="utf-8")
        ),
        script=Markup(chart_script.read_drawing_code()),
        library=Markup(vega_code.bundle_vega()),
        data=Markup(data),
        flames=Markup(flamegraph.render_library() if document.embeds else ""),
    )


def _keep_together(value: Any) -> Any:
    return _PERCENT.sub("\u00a0%", value) if type(value) is str else value
