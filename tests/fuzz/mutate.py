"""Valid files made invalid in the ways that readers stumble over: flipped, cut, spliced, nested,
with huge numbers. Pure.
"""

import gzip
import json
import re
import zlib
from collections.abc import Sequence
from random import Random
from typing import Any

NUMBERS = (
    b"0",
    b"-1",
    b"1",
    b"2147483648",
    b"4294967295",
    b"9223372036854775807",
    b"9223372036854775808",
    b"18446744073709551616",
    b"1e308",
    b"1e-320",
    b"-1e999",
    b"nan",
    b"inf",
    b"1" + b"0" * 400,
    b"9" * 5000,
    b"0.0",
    b"-0",
    b"1_000",
    "٣".encode(),
)
WORDS = (
    b"\0",
    b"\xff\xfe",
    b"\\ud800",
    b"\xed\xa0\x80",
    b"\n",
    b"\r\n",
    b"\t",
    b")",
    b"(",
    b'"',
    b"'",
    b"\\",
    b"=",
    b"%s",
    b"../" * 9,
    b"/" * 300,
    b"[" * 3000,
    b"{" * 3000,
    b'{"a":' * 2000,
    b"((((",
    b"\x1b[2J",
    b" " * 1000,
    b"a" * 70_000,
    b"!include ",
    b"\xe2\x80\xa8",
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**63),
    2**64,
    10**400,
    1e308,
    -1e308,
    5e-324,
    float("inf"),
    float("nan"),
    "",
    "\0",
    "\ud800",
    "x" * 5000,
    "1",
    [],
    {},
    [[]],
    [None],
    {"": None},
    "2e5",
    "\n",
)
_NUMBER = re.compile(rb"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def mutated(data: bytes, random: Random, others: Sequence[bytes] = ()) -> bytes:
    """``data``, changed in one to four places; ``others``: valid files too, to take pieces from."""
    if data[:2] == b"\x1f\x8b" and random.random() < 0.8:
        try:
            return gzip.compress(mutated(gzip.decompress(data), random), 1, mtime=0)
        except (OSError, EOFError, zlib.error):
            pass
    if data[:1] in (b"{", b"[") and random.random() < 0.7:
        try:
            return _structure(data, random)
        except (ValueError, RecursionError):
            pass
    found = bytearray(data)
    for _ in range(random.randint(1, 4)):
        random.choice(_CHANGES)(found, random, others)
    return bytes(found)


def _structure(data: bytes, random: Random) -> bytes:
    """Of JSON, or of lines of it: values replaced, removed, doubled, moved."""
    lines = data.splitlines() if b"\n{" in data else [data]
    at = random.randrange(len(lines))
    value = json.loads(lines[at])
    for _ in range(random.randint(1, 3)):
        value = _changed(value, random)
    written = json.dumps(value).encode()
    return b"\n".join([*lines[:at], written, *lines[at + 1 :]])


def _changed(value: Any, random: Random) -> Any:
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(list(value))
        how = random.random()
        if how < 0.08:
            return {k: v for k, v in value.items() if k != key}
        if how < 0.12:
            return {**value, random.choice(["", "x", "\ud800", key + "x"]): value[key]}
        return {**value, key: _changed(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.9:
        at = random.randrange(len(value))
        how = random.random()
        if how < 0.1:
            return [*value[:at], *value[at + 1 :]]
        if how < 0.2:
            return [*value, value[at]]
        return [*value[:at], _changed(value[at], random), *value[at + 1 :]]
    if random.random() < 0.05:
        for _ in range(random.choice([50, 500])):
            value = [value]
        return value
    return random.choice(VALUES)


def _flip(data: bytearray, random: Random, _: Sequence[bytes]) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _write_over(data: bytearray, random: Random, _: Sequence[bytes]) -> None:
    at = random.randint(0, len(data))
    data[at : at + random.choice([1, 2, 4, 8, 64])] = random.choice(
        [b"\xff", b"\0", b"\x7f", b"\x80"]
    ) * random.choice([1, 2, 4, 8, 64])


def _cut(data: bytearray, random: Random, _: Sequence[bytes]) -> None:
    at = random.randint(0, len(data))
    del data[at : at + random.choice([1, 3, 17, 1000, len(data)])]


def _double(data: bytearray, random: Random, _: Sequence[bytes]) -> None:
    at = random.randint(0, len(data))
    piece = data[at : at + random.choice([1, 8, 100, 5000])]
    if len(data) < 10**6:
        data[at:at] = piece * random.choice([1, 2, 50])


def _splice(data: bytearray, random: Random, others: Sequence[bytes]) -> None:
    other = random.choice(others) if others else bytes(data)
    at, start = random.randint(0, len(data)), random.randint(0, len(other))
    data[at : at + random.choice([0, 10, 100])] = other[
        start : start + random.choice([1, 10, 100, 1000])
    ]


def _number(data: bytearray, random: Random, _: Sequence[bytes]) -> None:
    found = list(_NUMBER.finditer(bytes(data)))
    if found:
        one = random.choice(found)
        data[one.start() : one.end()] = random.choice(NUMBERS)


def _word(data: bytearray, random: Random, _: Sequence[bytes]) -> None:
    at = random.randint(0, len(data))
    data[at:at] = random.choice(WORDS)


def _line(data: bytearray, random: Random, _: Sequence[bytes]) -> None:
    """Two lines in each other's place, or one twice, or none."""
    lines = bytes(data).split(b"\n")
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    how = random.random()
    if how < 0.5:
        lines[one], lines[other] = lines[other], lines[one]
    elif how < 0.8:
        lines.insert(one, lines[other])
    else:
        del lines[one]
    data[:] = b"\n".join(lines)


_CHANGES = (_flip, _write_over, _cut, _double, _splice, _number, _number, _word, _line)
