"""An explanation as one self-contained page: no request leaves it."""

import re
from collections.abc import Sequence
from datetime import datetime
from importlib.resources import files
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

import dballoc
from dballoc.explain.checklist.section import format_cell, list_numeric_columns
from dballoc.explain.difference import compare_explanations, describe_vsz_and_cpu
from dballoc.explain.explanation import Explanation, judge_series
from dballoc.explain.output import charts
from dballoc.numbers import count, duration, mebibytes, percent, signed_mebibytes
from dballoc.webpage import chart_script, style, vega_code

# A number and its per cent sign stay on one line.
_PERCENT = re.compile(r"(?<=\d) %")

LEVELS = {"problem": "Problem", "notice": "Worth knowing", "open": "Open", "fine": "Fine"}


class _Figure(NamedTuple):
    key: str
    title: str
    caption: str


_FIGURES = (
    _Figure("series", "Over time", "RSS by line: the areas add up to it."),
    _Figure("vsz", "Address space over time", "VSZ, as ps shows it."),
    _Figure(
        "cpu", "CPU over time", "CPU time per second since the snapshot before, as top shows it."
    ),
    _Figure(
        "waterfall",
        "RSS, line by line",
        "Each bar begins where the one before ends; with the rest they add up to RSS.",
    ),
    _Figure(
        "treemap", "By area", "Groups, and the owners in them. Hover or tap for bytes and share."
    ),
)
_BOUNDS = _Figure(
    "bounds",
    "What the configuration allows",
    "Not what is used, but the most that the settings allow.",
)


def render_page(series: Sequence[Explanation]) -> str:
    """Return the page of the last snapshot, with the change since the first one."""
    latest = judge_series(series)
    drawn: dict[str, Any] = {
        "series": charts.draw_series(series),
        "vsz": charts.draw_vsz(series),
        "cpu": charts.draw_cpu(series),
        "waterfall": charts.draw_waterfall(latest.ledger),
        "treemap": charts.draw_treemap(latest.ledger),
        "bounds": charts.draw_bounds(latest),
    }
    specifications = {key: chart for key, chart in drawn.items() if chart}
    package = files("dballoc.explain")
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_keep_together,
    )
    environment.filters |= {
        "mib": mebibytes,
        "signed": signed_mebibytes,
        "percent": percent,
        "cell": format_cell,
    }
    template = environment.from_string(
        (package / "templates" / "explain.html.j2").read_text(encoding="utf-8")
    )
    grown = compare_explanations(series[0], latest) if len(series) > 1 else None
    return template.render(
        found=latest,
        vsz_and_cpu=describe_vsz_and_cpu(series),
        numeric=list_numeric_columns,
        ledger=latest.ledger,
        levels=LEVELS,
        grown=grown,
        about=_describe(series),
        figures=[f for f in _FIGURES if f.key in specifications],
        beside=_BOUNDS if "bounds" in specifications else None,
        version=dballoc.__version__,
        style=Markup(
            style.read_base_style()
            + (package / "static" / "explain.css").read_text(encoding="utf-8")
        ),
        script=Markup(chart_script.read_drawing_code()),
        library=Markup(vega_code.bundle_vega()),
        data=Markup(
            chart_script.encode_chart_data(specifications, charts.list_legend(latest.ledger))
        ),
    )


def _describe(series: Sequence[Explanation]) -> str:
    """Return which server it is, when it was read, and what the figures are from."""
    last = series[-1]
    when = f"{datetime.fromtimestamp(last.timestamp).astimezone():%Y-%m-%d %H:%M:%S %Z}"
    server = f"{last.ledger.executable}, process {last.ledger.pid}; malloc: {last.ledger.malloc}"
    snapshots = (
        f"; {count(len(series), 'snapshot')} in {duration(last.timestamp - series[0].timestamp)}"
        if len(series) > 1
        else ""
    )
    return f"{server}; {when}{snapshots}; known from: {', '.join(last.ledger.tiers)}"


def _keep_together(value: Any) -> Any:
    return _PERCENT.sub("\u00a0%", value) if type(value) is str else value
