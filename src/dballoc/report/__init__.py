"""The report: one file per output. Reads the store through analysis alone."""

from pathlib import Path

from dballoc.analysis.fit import is_fit
from dballoc.analysis.preference import MEMORY, Preference
from dballoc.analysis.published import Published


def write(
    directory: Path, out: Path | None = None, redact: bool = False, preference: Preference = MEMORY,
    published: Published | None = None,
) -> Path:  # fmt: skip
    """Write ``report.html``, ``report.md``, ``recommendation.json`` (of a fit ``fit.json``), ``csv/`` and ``charts/`` of a
    results directory into ``out``, or into the directory itself; returns the page's path. UsageError if there is nothing to
    report, or not what ``preference`` asks for; Failure if it cannot be written. ``published``: the post to set beside.
    """
    # Altair and vl-convert take most of a second to import, which no other verb should wait for.
    from dballoc.report import writer

    if is_fit(directory):
        return writer.write_fit(directory, out or directory, redact)
    return writer.write(directory, out or directory, redact, preference, published)
