"""The report: one file per output. Reads the store through analysis alone."""

from pathlib import Path

from dballoc.analysis.decisions.preference import LEAST_MEMORY, Preference
from dballoc.analysis.published.published_figures import Published
from dballoc.analysis.tables.largest_cache import is_fit
from dballoc.analysis.tune.search_history import is_search


def write_report_outputs(
    directory: Path,
    out: Path | None = None,
    redact: bool = False,
    preference: Preference = LEAST_MEMORY,
    published: Published | None = None,
) -> Path:
    """Write ``report.html``, ``report.md``, ``recommendation.json`` (of a fit ``fit.json``, of a
    tune ``tune.json``), ``csv/`` and ``charts/`` of a results directory into ``out``, or into the
    directory itself; returns the page's path. UsageError if there is nothing to report, or not what
    ``preference`` asks for; Failure if it cannot be written. ``published``: the post to set beside.
    """
    # Altair and vl-convert take most of a second to import, which no other verb should wait for.
    from dballoc.report import write_report

    if is_fit(directory):
        return write_report.write_fit_report(directory, out or directory, redact)
    if is_search(directory):
        return write_report.write_tune_report(directory, out or directory, redact)
    return write_report.write_campaign_report(
        directory, out or directory, redact, preference, published
    )
