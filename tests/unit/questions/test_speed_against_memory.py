"""The picture of speed against memory, and the pairs: where labels go, and what is drawn."""

import math

import polars as pl
import pytest
from example_ratios import make_metric
from test_report_answer import EQUAL, HIGHER, LOWER, PEAK, TPS, comparisons, ratio

from dballoc.document.charts import Variants
from dballoc.document.model import Figure
from dballoc.questions.campaign.charts.speed_against_memory import (
    _compute_label_box,
    _compute_overlap,
    draw_speed_against_memory,
    place_labels,
)
from dballoc.questions.compare.baseline_comparison import Comparison, Comparisons
from dballoc.questions.compare.ratio_charts import draw_pair_matrix

CPU = make_metric("cpu:oltp")


def data(spec: dict, layer: dict) -> list[dict]:
    """A layer's own rows, wherever Altair put them."""
    found = layer.get("data") or spec["data"]
    return found["values"] if "values" in found else spec["datasets"][found["name"]]


def points(figure: Figure) -> dict[str, dict]:
    spec = figure.chart
    marked = next(layer for layer in spec["layer"] if layer["mark"].get("type") == "point")
    return {row["variant"]: row for row in data(spec, marked)}


def test_speed_to_the_right_and_memory_upwards_with_the_baseline_in_the_middle() -> None:
    figure = draw_speed_against_memory(
        comparisons({"a": (HIGHER, LOWER), "broken": None}), TPS, Variants(["glibc", "a", "broken"])
    )
    found = points(figure)
    assert set(found) == {"glibc", "a"}
    assert (found["glibc"]["x"], found["glibc"]["y"]) == (1, 1)
    assert (found["a"]["xlow"], found["a"]["xhigh"]) == pytest.approx(HIGHER)
    assert (found["a"]["ylow"], found["a"]["yhigh"]) == pytest.approx(LOWER)
    assert "better: faster, less memory" in str(figure.chart)
    assert "throughput, ratio to glibc" in str(figure.chart)


def test_what_costs_less_is_faster() -> None:
    found = comparisons({"a": (LOWER, EQUAL)}, metrics=(TPS, CPU, PEAK))
    drawn = points(draw_speed_against_memory(found, CPU, Variants(["glibc", "a"])))["a"]
    assert (drawn["xlow"], drawn["xhigh"]) == pytest.approx((1 / LOWER[1], 1 / LOWER[0]), rel=1e-5)
    assert "transactions per CPU second" in str(
        draw_speed_against_memory(found, CPU, Variants(["glibc", "a"])).chart
    )


def test_one_block_has_points_without_bars() -> None:
    drawn = points(
        draw_speed_against_memory(
            comparisons({"a": (LOWER, EQUAL)}, blocks=1), TPS, Variants(["glibc", "a"])
        )
    )["a"]
    assert "xlow" not in drawn


def test_an_interval_without_end_stays_in_the_frame() -> None:
    found = comparisons({"a": (LOWER, EQUAL)})
    wide = [Comparison(c.variant, c.metric, ratio((1e-9, 1e9))) for c in found.family]
    assert draw_speed_against_memory(
        Comparisons(
            procedures=found.procedures,
            metrics=found.metrics,
            family=wide,
            floor=found.floor,
            faulty={},
        ),
        TPS,
        Variants(["glibc", "a"]),
    ).chart


def test_labels_of_neighbours_do_not_meet() -> None:
    crowd = [
        ("glibc", 300.0, 200.0),
        ("jemalloc", 304.0, 200.0),
        ("mimalloc", 300.0, 206.0),
        ("edge", 635.0, 5.0),
    ]
    sides = place_labels(crowd)
    boxes = [
        _compute_label_box(name, x, y, s["right"], s["below"])
        for (name, x, y), s in zip(crowd, sides, strict=True)
    ]
    assert all(_compute_overlap(a, b) == 0 for i, a in enumerate(boxes) for b in boxes[:i])
    assert sides[3] == {"right": -1, "below": 1}


def test_a_label_avoids_a_bar() -> None:
    assert place_labels([("glibc", 300.0, 200.0)]) == [{"right": 1, "below": -1}]
    assert place_labels([("glibc", 300.0, 200.0)], [(310.0, 0.0, 313.0, 196.0)]) == [
        {"right": 1, "below": 1}
    ]


def test_every_pair_both_ways_and_coloured_where_it_is_shown() -> None:
    schema = {
        "first": pl.String,
        "second": pl.String,
        "measure": pl.String,
        "workload": pl.String,
        "ratio": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "n": pl.Int64,
    }
    found = pl.DataFrame(
        [
            ("glibc", "a", "rss_peak", None, 1.25, 1.2, 1.3, 6),
            ("glibc", "b", "rss_peak", None, 1.0, 0.9, 1.1, 6),
            ("a", "b", "rss_peak", None, 0.8, None, None, 1),
            ("glibc", "a", "tps", "oltp", 1.25, 1.2, 1.3, 6),
        ],
        schema=schema, orient="row",
    )  # fmt: skip

    def cells(figure: Figure) -> dict[tuple[str, str], tuple[str, str]]:
        spec = figure.chart
        return {
            (r["row"], r["column"]): (r["text"], r["shown"]) for r in data(spec, spec["layer"][0])
        }

    peak = cells(draw_pair_matrix(found, "rss_peak", None, ["glibc", "a", "b"]))
    assert len(peak) == 6
    assert peak["glibc", "a"] == ("1.250", "worse")
    assert peak["a", "glibc"] == ("0.800", "better")
    assert peak["glibc", "b"][1] == peak["a", "b"][1] == peak["b", "a"][1] == "not shown"
    assert cells(draw_pair_matrix(found, "tps", "oltp", ["glibc", "a"]))["glibc", "a"] == (
        "1.250",
        "better",
    )
    assert math.isclose(float(peak["b", "a"][0]), 1.25)
