"""Every pair of variants at a glance: the row's figure ÷ the column's."""

import polars as pl

from dballoc.analysis.measures import MEASURES
from dballoc.document.charts import (
    POINTS,
    draw,
    encode_names,
    make_chart,
    make_names_axis,
    make_tips,
)
from dballoc.document.model import Figure
from dballoc.report.wording.ratios_as_text import format_ratio

_ROW = 34

# Okabe and Ito's blue and orange, thin enough for text on them in the light and in the dark.
_SHOWN = {"better": "#0072b2", "worse": "#d55e00", "not shown": "#888888"}
# With more letters than this the names above the columns would meet on a phone.
_LETTERS = 30


def draw_pair_matrix(
    pairs: pl.DataFrame, measure: str, workload: str | None, names: list[str]
) -> Figure:
    """Draw the row's figure ÷ the column's. ``pairs``:
    :func:`dballoc.analysis.tables.all_pairs.compare_all_pairs`; ``names``: the variants in their
      order.
    """
    title = MEASURES[measure].short
    more_is_better = MEASURES[measure].better == "higher"
    ratios = pairs.filter((pl.col("measure") == measure) & pl.col("workload").eq_missing(workload))
    rows = []
    for row in ratios.iter_rows(named=True):
        ratio, low, high = row["ratio"], row["low"], row["high"]
        back = (1 / high, 1 / low) if low and high else (None, None)
        for first, second, r, ends in (
            (row["first"], row["second"], ratio, (low, high)),
            (row["second"], row["first"], 1 / ratio, back),
        ):
            rows.append(
                {
                    "row": first,
                    "column": second,
                    "text": f"{r:.3f}" if 0.001 < r < 1000 else "",
                    "words": format_ratio(r, *ends),
                    "shown": _classify_interval(ends[0], ends[1], more_is_better),
                }
            )
    upright = sum(map(len, names)) > _LETTERS
    x = make_names_axis("column", names, orient="top", labelAngle=-90 if upright else 0)
    del x["axis"]["grid"]
    common = {
        "x": x | {"scale": {"domain": names}},
        "y": make_names_axis("row", names) | {"scale": {"domain": names}},
        "tooltip": make_tips({"row": "variant", "column": "relative to", "words": "ratio"}),
    }
    legend = POINTS | {"symbolOpacity": 0.4}
    color = encode_names("shown", _SHOWN, list(_SHOWN.values()), legend=legend)
    text = {"field": "text", "type": "nominal"}
    layers = [
        draw(rows, "rect", opacity=0.3, color=color, **common),
        draw(rows, "text", style="label", text=text, **common),
    ]
    where = f", {workload}" if workload else ""
    better = "more" if more_is_better else "less"
    caption = (
        f"The row's {title} ÷ the column's; {better} is better. Coloured where the 95 % interval "
        "excludes 1; descriptive."
    )
    return Figure(
        f"pairs-{measure}-{workload}" if workload else f"pairs-{measure}",
        f"Every pair: {title}{where}",
        caption,
        make_chart(_ROW * len(names), layers),
    )


def _classify_interval(low: float | None, high: float | None, more_is_better: bool) -> str:
    if low is None or high is None or low <= 1 <= high:
        return "not shown"
    return "better" if (low > 1) == more_is_better else "worse"
