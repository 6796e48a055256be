"""Values that a server answers with, within bounds: numbers that a machine can hold. The client
library takes whatever digits and exponents it is sent, and ``int(Decimal("1E+999999999"))`` ends in
no bearable time, and cannot be interrupted. Pure.
"""

import math
import re
from typing import Any

from pymysql.constants import FIELD_TYPE
from pymysql.converters import conversions
from pymysql.cursors import Cursor

# A counter has 64 bits; a sum of them may have more.
_LARGEST_INTEGER, _LARGEST_COUNT = 2**127, 2**64
_MOST_DIGITS = 39
_LONGEST_MESSAGE = 300
# MySQL's manual, "DECIMAL Data Type": 65 digits at most, never an exponent.
_DECIMAL = re.compile(r"-?[0-9]{1,65}(?:\.[0-9]{0,65})?", re.ASCII)


def fetch_rows(cursor: Cursor, sql: str) -> list[tuple]:
    """Return the rows of a statement. Raises pymysql.Error if the server refuses it."""
    cursor.execute(sql)
    return list(cursor.fetchall())


def decode_integer(text: str) -> int:
    """Return the value of an integer column. Raises ValueError for a number of more than 128
    bits.
    """
    value = int(text) if len(text) <= _MOST_DIGITS + 1 else _LARGEST_INTEGER
    if not -_LARGEST_INTEGER < value < _LARGEST_INTEGER:
        raise ValueError("a number beyond 128 bits")
    return value


def decode_real(text: str) -> float:
    """Return the value of a column of floating point. Raises ValueError unless it is finite."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return value


def decode_decimal(text: str) -> int | float:
    """Return the value of a DECIMAL: an integer (all sums of counters), or else the nearest real
    number. Raises ValueError if it is not one.
    """
    if not _DECIMAL.fullmatch(text):
        raise ValueError("not a DECIMAL")
    return decode_real(text) if "." in text else decode_integer(text)


# By the protocol's column type, in place of the client library's own.
DECODERS: dict[Any, Any] = {
    **conversions,
    **dict.fromkeys(
        (
            FIELD_TYPE.TINY,
            FIELD_TYPE.SHORT,
            FIELD_TYPE.INT24,
            FIELD_TYPE.LONG,
            FIELD_TYPE.LONGLONG,
            FIELD_TYPE.YEAR,
        ),
        decode_integer,
    ),
    **dict.fromkeys((FIELD_TYPE.FLOAT, FIELD_TYPE.DOUBLE), decode_real),
    **dict.fromkeys((FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL), decode_decimal),
}


def parse_count(value: object) -> int:
    """Return a number that a server may have sent as text, or a fraction; NULL is 0. Raises
    ValueError if it is not one, or beyond 64 bits.
    """
    if value is None or value == "":
        return 0
    if not isinstance(value, int | float | str):
        raise ValueError("not a number")
    # A real number first: it bounds what becomes an integer.
    if not -_LARGEST_COUNT < float(value) < _LARGEST_COUNT:
        raise ValueError("a number beyond 64 bits")
    return int(value)


def describe_refusal(error: Exception) -> str:
    """Return why a server refused a statement, in one line; it may send a message of any length, or
    none.
    """
    line = " ".join(str(error.args[-1])[:_LONGEST_MESSAGE].split())
    return line or f"it sends an error without a message ({type(error).__name__})"
