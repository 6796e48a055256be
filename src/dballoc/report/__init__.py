"""The report: one file per output. Reads the store through analysis alone."""

from pathlib import Path


def write(directory: Path, out: Path | None = None, redact: bool = False) -> Path:
    """Write ``report.html``, ``report.md``, ``csv/`` and ``charts/`` of a results directory into ``out``, or into the
    directory itself; returns the page's path. UsageError if there is nothing to report, Failure if it cannot be written.
    """
    # Altair and vl-convert take most of a second to import, which no other verb should wait for.
    from dballoc.report import writer

    return writer.write(directory, out or directory, redact)
