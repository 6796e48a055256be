"""pprof: the gzipped protocol buffer of github.com/google/pprof, proto/profile.proto, whose field
numbers these are.

Encoded here: the file has two kinds of fields alone, numbers and strings of bytes, and writing them
takes fewer lines than the descriptor that the protobuf library would want, which no package brings
for Python.
"""

import gzip
from collections.abc import Hashable, Iterable
from typing import TypeVar

from dballoc.profile import call_tree, profile_tables
from dballoc.profile.model import Frame, Profile

# pprof's numbers are whole, and it knows units by these names.
_UNITS = {"seconds": ("nanoseconds", 1e9), "objects": ("count", 1.0)}

_LIMIT = 2**63 - 1

_Key = TypeVar("_Key", bound=Hashable)


def write(profile: Profile, value: str) -> bytes:
    """Every value of the profile by call stack; ``value`` is the one that pprof shows unless asked
    for another. KeyError if the profile has no such value.
    """
    profile.column(value)
    strings = _Numbers([""])
    modules: dict[str, int] = {}
    functions: dict[tuple[str, str], int] = {}
    locations: dict[Frame, int] = {}
    out: list[bytes] = []
    for kind in profile_tables.shown(profile):
        out.append(
            _message(1, _number(1, strings[kind.key]), _number(2, strings[_unit(kind.unit)[0]]))
        )
    for sample in profile.samples:
        # The innermost frame comes first here.
        stack = [_one_of(locations, frame) for frame in reversed(call_tree.frames(sample))]
        numbers = [
            _whole(sample.values[profile.column(v.key)] * _unit(v.unit)[1])
            for v in profile_tables.shown(profile)
        ]
        labels = [
            _message(3, _number(1, strings[k]), _number(2, strings[text]))
            for k, text in sample.labels.items()
        ]
        out.append(_message(2, _packed(1, stack), _packed(2, numbers), *labels))
    for frame, number in locations.items():
        function = _one_of(functions, (frame.function, frame.file))
        line = _message(4, _number(1, function), _number(2, frame.line))
        out.append(
            _message(4, _number(1, number), _number(2, _one_of(modules, frame.module)), line)
        )
    for module, number in modules.items():
        # has_functions: pprof need not look for symbols itself.
        out.append(_message(3, _number(1, number), _number(5, strings[module]), _number(7, 1)))
    for (name, file), number in functions.items():
        out.append(
            _message(
                5,
                _number(1, number),
                _number(2, strings[name]),
                _number(3, strings[name]),
                _number(4, strings[file]),
            )
        )
    comments = [profile.title, *(f"{name}: {text}" for name, text in profile.facts.items())]
    out.append(_packed(13, [strings[text] for text in comments if text]))
    out.append(_number(9, _whole(profile.taken * 1e9)) + _number(10, _whole(profile.seconds * 1e9)))
    out.append(_number(14, strings[value]))
    # Last, for until here strings came up; the order of fields does not matter.
    out += [_bytes(6, text.encode("utf-8", "backslashreplace")) for text in strings]
    return gzip.compress(b"".join(out), mtime=0)


class _Numbers(dict[str, int]):
    """Texts, numbered as they come up."""

    def __init__(self, first: Iterable[str]):
        super().__init__((text, i) for i, text in enumerate(first))

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]


def _one_of(numbers: dict[_Key, int], key: _Key) -> int:
    return numbers.setdefault(key, len(numbers) + 1)


def _unit(unit: str) -> tuple[str, float]:
    return _UNITS.get(unit, (unit, 1.0))


def _whole(number: float) -> int:
    return max(-_LIMIT, min(_LIMIT, round(number)))


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; a negative number as its two's complement of 64 bits."""
    number &= 2**64 - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _number(field: int, number: int) -> bytes:
    """A field of a number; nothing for 0, which is what an absent one means."""
    return _varint(field << 3) + _varint(number) if number else b""


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _packed(field: int, numbers: Iterable[int]) -> bytes:
    data = b"".join(_varint(number) for number in numbers)
    return _bytes(field, data) if data else b""


def _message(field: int, *parts: bytes) -> bytes:
    return _bytes(field, b"".join(parts))
