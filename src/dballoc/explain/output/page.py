"""An explanation as one self-contained page: no request leaves it."""

from collections.abc import Sequence
from datetime import datetime

from dballoc.document.model import Figure
from dballoc.document.page import render_page
from dballoc.explain.checklist.section import format_cell, list_numeric_columns
from dballoc.explain.difference import compare_explanations, describe_vsz_and_cpu
from dballoc.explain.explanation import Explanation, judge_series
from dballoc.explain.output import charts
from dballoc.ground.numbers import count, duration, mebibytes, percent, signed_mebibytes

_LEVELS = {"problem": "Problem", "notice": "Worth knowing", "open": "Open", "fine": "Fine"}

# The title and the caption of each chart, in the page's order.
_CHARTS = {
    "series": ("Over time", "RSS by line: the areas add up to it."),
    "vsz": ("Address space over time", "VSZ, as ps shows it."),
    "cpu": (
        "CPU over time",
        "CPU time per second since the snapshot before, as top shows it.",
    ),
    "waterfall": (
        "RSS, line by line",
        "Each bar begins where the one before ends; with the rest they add up to RSS.",
    ),
    "treemap": (
        "By area",
        "Groups, and the owners in them. Hover or tap for bytes and share.",
    ),
    "bounds": (
        "What the configuration allows",
        "Not what is used, but the most that the settings allow.",
    ),
}


def render_explanation(series: Sequence[Explanation]) -> str:
    """Return the page of the last snapshot, with the change since the first one."""
    latest = judge_series(series)
    drawn = {
        "series": charts.draw_series(series),
        "vsz": charts.draw_vsz(series),
        "cpu": charts.draw_cpu(series),
        "waterfall": charts.draw_waterfall(latest.ledger),
        "treemap": charts.draw_treemap(latest.ledger),
        "bounds": charts.draw_bounds(latest),
    }
    figures = {
        key: Figure(key, *words, chart)
        for key, words in _CHARTS.items()
        if (chart := drawn[key]) is not None
    }
    return render_page(
        "explain",
        "dballoc.explain",
        {key: figure.chart for key, figure in figures.items()},
        charts.list_legend(latest.ledger),
        {"mib": mebibytes, "signed": signed_mebibytes, "percent": percent, "cell": format_cell},
        beside=figures.pop("bounds", None),
        figures=list(figures.values()),
        found=latest,
        vsz_and_cpu=describe_vsz_and_cpu(series),
        numeric=list_numeric_columns,
        ledger=latest.ledger,
        levels=_LEVELS,
        grown=compare_explanations(series[0], latest) if len(series) > 1 else None,
        about=_describe(series),
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
