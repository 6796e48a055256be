"""The figures of several hosts as CSV: of every host, of every kind of them, and over all."""

from collections.abc import Iterator, Sequence
from typing import Any

from dballoc.analysis.hosts.verdicts_over_hosts import FigureOverHosts
from dballoc.analysis.tables.baseline_comparison import DESCRIPTIVE_CONFIDENCE
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
            "ratio": f.ratio.estimate,
            **_make_interval(f.ratio.low, f.ratio.high, has_interval=f.ratio.has_interval),
            "kind": f.host.kind,
            "hosts": 1,
        }
    for kind in figure.kinds:
        yield {
            "ratio": kind.estimate,
            **_make_interval(kind.low, kind.high, has_interval=kind.low is not None),
            "kind": kind.kind,
            "hosts": kind.hosts,
        }
    if mean := figure.mean:
        yield {
            "ratio": mean.estimate,
            **_make_interval(
                mean.low, mean.high, has_interval=mean.has_interval, confidence=mean.confidence
            ),
            "hosts": mean.hosts,
            "verdict": "" if figure.no_verdict else figure.verdict.value,
        }


def _make_interval(
    low: float | None,
    high: float | None,
    *,
    has_interval: bool,
    confidence: float = DESCRIPTIVE_CONFIDENCE,
) -> dict[str, float]:
    if not has_interval or low is None or high is None:
        return {}
    return {"low": low, "high": high, "confidence": confidence}
