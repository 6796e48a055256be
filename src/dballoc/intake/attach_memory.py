"""Attach readings of a server's memory to the figures that were measured meanwhile."""

import statistics
from collections.abc import Sequence
from dataclasses import replace

from dballoc import readers
from dballoc.errors import UsageError
from dballoc.intake import memory_series, powershell_text
from dballoc.intake.imported_figure import Figure, choose_machine
from dballoc.intake.memory_series import MemorySeries
from dballoc.intake.output_mapping import MemoryFile

_LARGEST_FILE = 64 * readers.MIB


def attach_memory(figures: Sequence[Figure], files: Sequence[MemoryFile]) -> list[Figure]:
    """Return the figures, with the memory that the files hold. UsageError in one line for a file
    that cannot be read, that no figure belongs to, or whose figure has its memory already.
    """
    places = {figure.identity: i for i, figure in enumerate(figures)}
    attached = list(figures)
    for file in files:
        machine = choose_machine(figures, file.variant, file.workload, file.machine, str(file.path))
        place = places.get((machine, file.workload, file.threads, file.variant, file.block))
        if place is None:
            raise UsageError(
                f"{file.path}: no transactions per second of {file.variant}, {file.workload} at "
                f"level {file.threads}, block {file.block}"
            )
        attached[place] = _add_series(attached[place], _read_series(file), file)
    return attached


def _read_series(file: MemoryFile) -> MemorySeries:
    try:
        text = powershell_text.read_text(file.path, _LARGEST_FILE)
    except readers.Unfit as error:
        raise UsageError(f"{file.path}: {error}") from None
    return memory_series.parse_memory(text, str(file.path), file.process)


def _add_series(figure: Figure, series: MemorySeries, file: MemoryFile) -> Figure:
    for has, values, title in (
        (figure.rss, series.rss, "RSS"),
        (figure.private, series.private, "private bytes"),
    ):
        if has is not None and values:
            raise UsageError(
                f"{file.path}: the {title} of {figure.variant}, {figure.workload} at level "
                f"{figure.threads} is already given, in {figure.place} or by another file"
            )
    rss, private = series.rss, series.private
    changed = replace(figure, private=max(private)) if private else figure
    if not rss:
        return changed
    return replace(
        changed,
        rss=max(rss),
        rss_start=rss[0],
        rss_mean=statistics.fmean(rss),
        rss_end=rss[-1],
    )
