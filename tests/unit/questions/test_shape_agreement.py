"""The rule by which our figures have the shape of published ones."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc import catalogue
from dballoc.experiment import experiment_file
from dballoc.load.post_like import fill_post
from dballoc.questions.compare.measures import OF_LEVEL
from dballoc.questions.published import measured_figures, post_figures
from dballoc.questions.published.figures import BAND, ShapeAgreement, combine_shapes, judge_shape
from dballoc.questions.statistics.ratio_interval import Interval

# What a published figure can be of.
MEASURES = {
    *measured_figures.OF_TRIAL,
    *OF_LEVEL,
    *measured_figures.BY_QUERY,
    *measured_figures.BY_QUERY.values(),
}
A, D, U = ShapeAgreement.AGREES, ShapeAgreement.DIFFERS, ShapeAgreement.UNDECIDED


@pytest.mark.parametrize(
    ("theirs", "low", "high", "shape"),
    [
        (1.30, 1.10, 1.60, A),
        (1.30, 1.01, 1.04, A),
        (1.30, 1.005, 1.015, D),  # as good as equal here
        (1.30, 0.95, 1.60, U),
        (1.30, 0.70, 0.90, D),
        (0.70, 0.60, 0.99, A),
        (0.70, 1.01, 1.20, D),
        (0.70, 0.90, 1.10, U),
        (1.01, 0.99, 1.01, A),
        (1.00, 1.005, 1.03, U),  # more than 1, but perhaps within the band
        (1.00, 1.03, 1.10, D),
        (1.00, 0.50, 0.97, D),
        (1.00, 0.50, 2.00, U),
    ],
)  # fmt: skip
def test_what_an_interval_says_to_a_published_ratio(
    theirs: float, low: float, high: float, shape: ShapeAgreement
) -> None:
    assert judge_shape(theirs, Interval(low, high)) is shape
    assert judge_shape(theirs, None) is U


@given(st.floats(0.2, 5), st.floats(0.2, 5), st.floats(1, 2))
def test_the_order_of_the_two_does_not_matter_but_at_the_bands_edge(
    theirs: float, middle: float, width: float
) -> None:
    low, high = middle / width, middle * width
    # The band is ±2 % of the ratio, which is not quite symmetrical when that is turned round.
    edges = (1 - BAND, 1 + BAND, 1 / (1 - BAND), 1 / (1 + BAND))
    if all(abs(math.log(x / e)) > 0.001 for x in (theirs, low, high) for e in (*edges, 1.0)):
        assert judge_shape(theirs, Interval(low, high)) is judge_shape(
            1 / theirs, Interval(1 / high, 1 / low)
        )


@pytest.mark.parametrize(
    ("shapes", "whole"), [([A, U], A), ([A, D], D), ([U, U], U), ([], U), ([D, U], D), ([A, A], A)]
)  # fmt: skip
def test_a_row_differs_if_any_two_of_its_figures_do(
    shapes: list[ShapeAgreement], whole: ShapeAgreement
) -> None:
    assert combine_shapes(shapes) is whole


@pytest.mark.parametrize("name", catalogue.published())
def test_every_published_figure_has_its_place_in_the_shipped_experiment(name: str) -> None:
    found = post_figures.parse_published(name, *catalogue.published()[name])
    experiment = experiment_file.build_experiment(
        fill_post(experiment_file.parse_table(catalogue.experiments()[name], name), name), name
    )
    assert experiment.published == name
    variants = {v.name for v in experiment.variant}
    for table in found.tables:
        assert table.cells
        assert {c.variant for c in table.cells} - {None} <= variants
        if table.ratios:
            assert table.baseline in variants
        if table.change:
            assert table.baseline in table.columns
        for cell in table.cells:
            # What nothing stands for may be a measure that dballoc does not have.
            assert cell.value > 0 or cell.variant is None
            assert cell.measure in MEASURES or cell.variant is None
            if "microbenchmarks" not in experiment.workloads:
                assert cell.workload is None or cell.workload in experiment.workloads
            if isinstance(cell.threads, int):
                assert cell.threads in experiment.threads
