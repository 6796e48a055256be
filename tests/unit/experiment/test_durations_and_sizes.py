"""Durations and sizes: what people write is read, what is ambiguous is refused, what we write is
read back.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.experiment.durations_and_sizes import (
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10),
        ("500ms", 0.5),
        ("2m", 120),
        ("1m30s", 90),
        ("1h2m3s4ms", 3723.004),
        ("1.5h", 5400),
        (" 10 s ", 10),
        ("0s", 0),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


# A bare number is refused: 30 could be seconds or minutes, and a campaign would silently be 60
# times too long.
@pytest.mark.parametrize(
    "text", ["", "10", "s", "10 sec", "10x", "-3s", "1s foo", "1m,30s", 10, 10.0, None, ["10s"]]
)
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is not a duration; write it with its unit"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=10**9))
def test_durations_survive_being_written(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == pytest.approx(
        milliseconds / 1000, abs=1e-6
    )


@pytest.mark.parametrize(
    ("text", "size"),
    [("1K", 1024), ("256M", 2**28), ("256m", 2**28), ("2G", 2**31), ("1T", 2**40), ("1.5G", 3 * 2**29), ("64MiB", 2**26), ("64 MB", 2**26)],
)  # fmt: skip
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "256", "M", "-1M", "1P", "1 Mo", 256, 1.5, None])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is not a size; write it with its unit"):
        parse_size(text)


@given(st.integers(min_value=0, max_value=2**50))
def test_sizes_survive_being_written(size: int) -> None:
    assert parse_size(format_size(size)) == size
