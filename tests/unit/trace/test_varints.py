"""Varints: what is encoded is decoded, and nothing else is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.trace.trace_file.varints import (
    InvalidVarints,
    decode_signs,
    decode_varints,
    encode_signs,
    encode_varints,
)

NUMBERS = st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1))


@given(st.lists(NUMBERS))
def test_numbers_survive(numbers: list[int]) -> None:
    encoded = encode_varints(np.array(numbers, np.uint64))
    assert decode_varints(encoded, len(numbers)).tolist() == numbers


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_signs_survive(numbers: list[int]) -> None:
    assert decode_signs(encode_signs(np.array(numbers, np.int64))).tolist() == numbers


def test_the_bytes_are_those_of_leb128() -> None:
    # 624485 is the example of DWARF's own text.
    assert encode_varints(np.array([2, 127, 128, 624485], np.uint64)) == bytes.fromhex(
        "02 7f 8001 e58e26"
    )
    assert encode_signs(np.array([0, -1, 1, -2], np.int64)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("encoded", "count"),
    [
        (b"\x01\x02", 1),
        (b"\x01", 2),
        (b"\x81", 1),
        (b"\x01\x81", 1),
        (b"", 1),
        (b"\xff" * 10 + b"\x01", 1),
        (b"\xff" * 9 + b"\x02", 1),
    ],
)
def test_other_bytes_are_refused(encoded: bytes, count: int) -> None:
    with pytest.raises(InvalidVarints):
        decode_varints(encoded, count)


@given(st.binary(max_size=60), st.integers(0, 60))
def test_any_bytes_are_read_or_refused(encoded: bytes, count: int) -> None:
    try:
        values = decode_varints(encoded, count)
    except InvalidVarints:
        return
    assert len(values) == count
