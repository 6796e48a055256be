"""A small plot of a value over time, in characters, with its axes. Pure."""

from collections.abc import Sequence

_EIGHTHS = " ▁▂▃▄▅▆▇█"


def draw_plot(
    times: Sequence[float], values: Sequence[float], width: int, height: int, unit: str
) -> list[str]:
    """Return lines of text, as wide as ``width``: the values' range at the left in ``unit``, the
    time since the first below.

    A column is the mean of its values, or the value before if it has none. The y axis does not
    begin at 0 (a server's RSS would be a bar): its ends are written beside it.
    """
    low, high = min(values), max(values)
    labels = [f"{high:,.1f}", f"{low:,.1f}"]
    margin = max(map(len, labels)) + len(unit) + 2
    columns = _mean_by_column(times, values, max(10, width - margin))
    steps = len(_EIGHTHS) - 1
    # The lowest value has a line of its own, so that there is something to see.
    levels = [
        1 + round((v - low) / (high - low) * (height * steps - 1)) if high > low else steps // 2
        for v in columns
    ]
    rows = []
    for row in range(height - 1, -1, -1):
        label = (
            f"{labels[0]} {unit}"
            if row == height - 1
            else f"{labels[1]} {unit}"
            if row == 0
            else ""
        )
        rows.append(
            f"{label:>{margin - 1}}┤"
            + "".join(_EIGHTHS[max(0, min(steps, x - row * steps))] for x in levels)
        )
    span = times[-1] - times[0]
    end = (
        f"{span / 60:.1f} min" if span >= 60 else f"{span:.0f} s" if span >= 1 else f"{span:.3f} s"
    )
    rows.append(" " * margin + "0" + f"{end:>{len(columns) - 1}}")
    return rows


def _mean_by_column(times: Sequence[float], values: Sequence[float], count: int) -> list[float]:
    span = times[-1] - times[0] or 1.0
    bins: list[list[float]] = [[] for _ in range(count)]
    for time, value in zip(times, values, strict=True):
        bins[min(count - 1, int((time - times[0]) / span * count))].append(value)
    means, mean = [], values[0]
    for values_in_bin in bins:
        mean = sum(values_in_bin) / len(values_in_bin) if values_in_bin else mean
        means.append(mean)
    return means
