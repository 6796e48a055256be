"""The figures of several hosts as CSV: of every host, of every kind of them, and over all."""

from collections.abc import Iterator, Sequence
from typing import Any

from dballoc.analysis.hosts.verdicts_over_hosts import FigureOverHosts
from dballoc.analysis.statistics.ratio_interval import Ratio
from dballoc.document.csv import format_csv
from dballoc.files.output_directory import OutputDirectory

_COLUMNS = (
    "metric",
    "variant",
    "host",
    "ratio",
    "low",
    "high",
    "confidence",
    "kind",
    "hosts",
    "verdict",
)


def write_hosts_csv(figures: Sequence[FigureOverHosts], directory: OutputDirectory) -> None:
    """Write ``hosts.csv``, a row for each figure; ``host`` is empty in one over several, ``kind``
    in one over all. OSError if that fails.
    """
    rows = [
        {"metric": figure.metric.key, "variant": figure.variant} | row
        for figure in figures
        for row in _list_rows(figure)
    ]
    table = [[row.get(column, "") for column in _COLUMNS] for row in rows]
    directory.write("hosts.csv", format_csv([_COLUMNS, *table]))


def _list_rows(figure: FigureOverHosts) -> Iterator[dict[str, Any]]:
    for f in figure.figures:
        yield {
            "host": f.host.name,
            **_describe_ratio(f.ratio),
            "kind": f.host.kind,
            "hosts": 1,
        }
    for kind in figure.kinds:
        yield {
            **_describe_ratio(kind.ratio),
            "kind": kind.kind,
            "hosts": kind.hosts,
        }
    if mean := figure.mean:
        yield {
            **_describe_ratio(mean),
            "hosts": mean.hosts,
            "verdict": "" if figure.no_verdict else figure.verdict.value,
        }


def _describe_ratio(ratio: Ratio) -> dict[str, float]:
    if ratio.interval is None:
        return {"ratio": ratio.estimate}
    low, high = ratio.interval
    return {"ratio": ratio.estimate, "low": low, "high": high, "confidence": ratio.confidence}
