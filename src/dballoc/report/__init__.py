"""The report: one file per output. Reads the store through analysis alone."""

from pathlib import Path

from dballoc.analysis.decisions.preference import LEAST_MEMORY, Preference
from dballoc.analysis.published.published_figures import Published


def write_report_outputs(
    directory: Path,
    out: Path | None = None,
    redact: bool = False,
    preference: Preference = LEAST_MEMORY,
    published: Published | None = None,
) -> Path:
    """Write all outputs of a results directory into ``out``, or into the directory itself; returns
    the page's path. Raises as :func:`dballoc.report.write_report.gather_document` and
    ``write_document``.
    """
    # Slow to import: polars, scipy, vl-convert.
    from dballoc.report.write_report import gather_document, write_document

    document = gather_document(directory, redact, preference, published)
    return write_document(document, out or directory, redact)
