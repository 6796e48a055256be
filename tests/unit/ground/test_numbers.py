"""Numbers as people read them."""

import math

import pytest

from dballoc.ground import numbers
from dballoc.questions.compare import ratios_as_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234.5, "1,234"),
        (56.78, "56.8"),
        (8.9, "8.90"),
        (0.1234, "0.123"),
        (0, "0.00"),
        (-5.5, "−5.50"),
        (None, "–"),
        (math.nan, "–"),
    ],
)
def test_number(value: float | None, text: str) -> None:
    assert numbers.number(value) == text


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ((0.97, 0.962, 0.978), "0.970 [0.962, 0.978]"), ((0.97, None, None), "0.970"), ((0.97, 0.0, math.inf), "0.970"),
        ((1.0, 0.0001, 5e7), "1.000 [0.000, > 1000]"), ((None,), "–"),
    ],
)  # fmt: skip
def test_a_ratio(found: tuple, text: str) -> None:
    assert ratios_as_text.format_ratio(*found) == text


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ((0.97, 0.962, 0.978), "−3.0 [−3.8, −2.2]"),
        ((1.0,), "0.0"),
        ((2.5,), "+150"),
        ((None,), "–"),
    ],
)
def test_a_difference(found: tuple, text: str) -> None:
    assert ratios_as_text.format_change(*found) == text


def test_sizes_have_units() -> None:
    assert [numbers.with_unit(n) for n in (0, 512, 3 * 2**20, 23.5 * 2**30)] == [
        "none",
        "512 bytes",
        "3.00 MiB",
        "23.5 GiB",
    ]


def test_how_a_process_ended() -> None:
    assert [ratios_as_text.describe_exit(n) for n in (None, 0, 7, -9, -99)] == [
        "–",
        "status 0",
        "status 7",
        "SIGKILL",
        "signal 99",
    ]


def test_words_in_a_row() -> None:
    assert [numbers.listing(list(w)) for w in ("", "a", "ab", "abc")] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
