"""What charts look like: colours, shapes and dashes of the variants, light and dark."""

from dataclasses import dataclass
from typing import Any

import altair as alt

# Okabe and Ito's palette, which colour-blind readers can tell apart; the baseline is grey. The dark one is lighter.
_LIGHT = ("#4d4d4d", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#8c564b")
_DARK = ("#c8c8c8", "#56a8e8", "#ff8a3d", "#2fc99a", "#e59ac4", "#f0c541", "#9ad2ff", "#c9998c")

# So that colour is never alone: these differ by shape and dash too.
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
_DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 2], [12, 4], [1, 3], [6, 2, 1, 2, 1, 2])

_FONT = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Arial, sans-serif"

# Pixels; a chart in the page takes its container's width instead.
WIDTH = 640


@dataclass(frozen=True)
class Figure:
    """A chart with its key (the file's name), its title, what to know about it, and what a screen reader says."""

    key: str
    title: str
    caption: str
    chart: alt.LayerChart | alt.FacetChart


# For charts with points. All channels of a chart share a legend, or there would be one for each.
POINTS = alt.Legend(symbolStrokeWidth=0)


@dataclass(frozen=True)
class Variants:
    """How the variants are told apart, in the same way in every chart. The baseline is the first."""

    names: list[str]

    def color(self, legend: alt.Legend | None) -> alt.Color:
        """The colours themselves come from the theme's ``range.category``."""
        return alt.Color("variant:N", title=None, scale=alt.Scale(domain=self.names), legend=legend)

    def shape(self, legend: alt.Legend | None) -> alt.Shape:
        """For points."""
        return alt.Shape(
            "variant:N", title=None, scale=alt.Scale(domain=self.names, range=self._cycle(_SHAPES)),
            legend=legend,
        )  # fmt: skip

    def dash(self, legend: alt.Legend | None) -> alt.StrokeDash:
        """For lines."""
        return alt.StrokeDash(
            "variant:N", title=None, scale=alt.Scale(domain=self.names, range=self._cycle(_DASHES)),
            legend=legend,
        )  # fmt: skip

    def _cycle(self, values: tuple) -> list:
        return [values[i % len(values)] for i in range(len(self.names))]


def config(dark: bool) -> dict[str, Any]:
    """The Vega-Lite config of a theme. Marks without a variant take their colour from here too."""
    ink, faint, grid = ("#e6e6e6", "#a0a0a0", "#3a3a3a") if dark else ("#222222", "#6b6b6b", "#e3e3e3")
    return {
        "background": "transparent" if dark else "#ffffff",
        "font": _FONT,
        "view": {"stroke": None},
        "range": {"category": list(_DARK if dark else _LIGHT)},
        "axis": {
            "labelColor": ink, "titleColor": ink, "gridColor": grid, "domainColor": faint, "tickColor": faint,
            "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "titlePadding": 8,
            "labelLimit": 160, "labelPadding": 6,
        },
        "legend": {
            "orient": "top", "direction": "horizontal", "labelColor": ink, "labelFontSize": 12, "symbolSize": 80,
            "symbolStrokeWidth": 2, "labelLimit": 240, "columnPadding": 16, "symbolOpacity": 1,
        },
        "title": {"color": ink, "subtitleColor": faint, "anchor": "start", "fontSize": 15, "subtitleFontSize": 12},
        "style": {
            "reference": {"color": ink, "opacity": 0.7},
            "margin": {"color": ink, "opacity": 0.1},
            "border": {"color": faint, "opacity": 0.6, "strokeDash": [2, 3]},
            "pause": {"color": ink, "opacity": 0.06},
            "note": {"color": faint, "fontSize": 12},
            "label": {"color": ink, "fontSize": 12},
        },
    }  # fmt: skip


def rounded(value: float | None) -> float | None:
    """Six significant digits: more would only make the page larger."""
    return None if value is None else float(f"{value:.6g}")


def frame(rows: list[dict[str, Any]]) -> alt.InlineData:
    """Rows as a chart's own data."""
    return alt.InlineData(values=[{k: rounded(v) if isinstance(v, float) else v for k, v in row.items()} for row in rows])
