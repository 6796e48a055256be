"""A document as one self-contained page: no request leaves it."""

from markupsafe import Markup

from dballoc.document import chart_files
from dballoc.document.model import REPLACED, Document
from dballoc.document.page import render_page
from dballoc.profile import flamegraph


def render_html(document: Document, redacted: bool) -> str:
    """Return a document as one HTML page. ``redacted``: whether names in it were replaced."""
    return render_page(
        "report",
        "dballoc.document",
        {figure.key: chart_files.fit_container(figure.chart) for figure in document.figures},
        document.names,
        document=document,
        replaced=REPLACED if redacted else "",
        flames=Markup(flamegraph.render_library() if document.embeds else ""),
    )
