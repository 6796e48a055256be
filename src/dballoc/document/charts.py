"""What charts look like: shapes and dashes of the variants; colours are the page's theme's."""

from dataclasses import dataclass
from typing import Any, ClassVar

import altair as alt

# So that colour is never alone: these differ by shape and dash too.
_SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
_DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 2], [12, 4], [1, 3], [6, 2, 1, 2, 1, 2])

# Pixels; a chart in the page takes its container's width instead.
WIDTH = 640


# For charts with points. All channels of a chart share a legend, or there would be one for each.
POINTS = alt.Legend(symbolStrokeWidth=0)


@dataclass(frozen=True)
class Variants:
    """How the variants are told apart, in the same way in every chart. The baseline is the
    first.
    """

    names: list[str]

    def encode_color(self, legend: alt.Legend | None) -> alt.Color:
        """The colours themselves come from the theme's ``range.category``."""
        return alt.Color("variant:N", title=None, scale=alt.Scale(domain=self.names), legend=legend)

    def encode_shape(self, legend: alt.Legend | None) -> alt.Shape:
        """For points."""
        return alt.Shape(
            "variant:N",
            title=None,
            scale=alt.Scale(domain=self.names, range=self._repeat(_SHAPES)),
            legend=legend,
        )

    def encode_dash(self, legend: alt.Legend | None) -> alt.StrokeDash:
        """For lines."""
        return alt.StrokeDash(
            "variant:N",
            title=None,
            scale=alt.Scale(domain=self.names, range=self._repeat(_DASHES)),
            legend=legend,
        )

    def _repeat(self, values: tuple) -> list:
        return [values[i % len(values)] for i in range(len(self.names))]


def round_to_six_digits(value: float | None) -> float | None:
    """Round to six significant digits: more would only make the page larger."""
    return None if value is None else float(f"{value:.6g}")


@dataclass(frozen=True)
class Rows:
    """Rows that Altair takes as they are (its protocol SchemaLike). It would look at each value,
    and copy all, for every chart that is made of another.
    """

    _schema: ClassVar[dict[str, Any]] = {"type": "array"}
    rows: list[dict[str, Any]]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the rows; Altair asks for them by this name."""
        return self.rows


def make_chart_data(rows: list[dict[str, Any]]) -> alt.InlineData:
    """Return rows as a chart's own data."""
    rounded = [
        {k: round_to_six_digits(v) if isinstance(v, float) else v for k, v in row.items()}
        for row in rows
    ]
    return alt.InlineData(values=Rows(rounded))  # type: ignore[arg-type]  # its stubs know no protocol
