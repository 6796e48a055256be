"""What charts look like, light and dark: Vega's config."""

from typing import Any

# Okabe and Ito's palette, which colour-blind readers can tell apart; the baseline is grey. The dark
# one is lighter.
_LIGHT = ("#4d4d4d", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#8c564b")
_DARK = ("#c8c8c8", "#56a8e8", "#ff8a3d", "#2fc99a", "#e59ac4", "#f0c541", "#9ad2ff", "#c9998c")

_FONT = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Arial, sans-serif"


def make_vega_config(dark: bool) -> dict[str, Any]:
    """Return the Vega-Lite config of a theme. Marks without a variant take their colour from here
    too.
    """
    ink, faint, grid = (
        ("#e6e6e6", "#a0a0a0", "#3a3a3a") if dark else ("#222222", "#6b6b6b", "#e3e3e3")
    )
    return {
        "background": "transparent" if dark else "#ffffff",
        "font": _FONT,
        "view": {"stroke": None},
        "range": {"category": list(_DARK if dark else _LIGHT)},
        "axis": {
            "labelColor": ink,
            "titleColor": ink,
            "gridColor": grid,
            "domainColor": faint,
            "tickColor": faint,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "labelLimit": 160,
            "labelPadding": 6,
        },
        "legend": {
            "orient": "top",
            "direction": "horizontal",
            "labelColor": ink,
            "labelFontSize": 12,
            "symbolSize": 80,
            "symbolStrokeWidth": 2,
            "labelLimit": 240,
            "columnPadding": 16,
            "symbolOpacity": 1,
        },
        "title": {
            "color": ink,
            "subtitleColor": faint,
            "anchor": "start",
            "fontSize": 15,
            "subtitleFontSize": 12,
        },
        "style": {
            "reference": {"color": ink, "opacity": 0.7},
            "margin": {"color": ink, "opacity": 0.1},
            "border": {"color": faint, "opacity": 0.6, "strokeDash": [2, 3]},
            "pause": {"color": ink, "opacity": 0.06},
            "note": {"color": faint, "fontSize": 12},
            "label": {"color": ink, "fontSize": 12},
        },
    }
