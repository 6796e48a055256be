"""pprof: the gzipped protocol buffer of github.com/google/pprof, whose proto/profile.proto defines
the field numbers.

The file has only two kinds of fields, numbers and byte strings. Encoding them here takes fewer
lines than the descriptor that the protobuf library would need, which no Python package has.
"""

import gzip
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from dballoc.profile import call_tree, profile_tables
from dballoc.profile.model import Frame, Profile

# pprof's numbers are whole, and it knows units by these names.
_UNITS = {"seconds": ("nanoseconds", 1e9), "objects": ("count", 1.0)}

_INT64_MAX = 2**63 - 1

_Key = TypeVar("_Key", bound=Hashable)


def encode_pprof(profile: Profile, value: str) -> bytes:
    """Encode every value of the profile by call stack; ``value`` is the one that pprof shows unless
    asked for another. Raises KeyError if the profile has no such value.
    """
    profile.column(value)
    strings = _StringTable([""])
    locations: dict[Frame, int] = {}
    out: list[bytes] = []
    for kind in profile_tables.list_shown_values(profile):
        out.append(
            _encode_message(
                1,
                _encode_number(1, strings[kind.key]),
                _encode_number(2, strings[_find_unit(kind.unit)[0]]),
            )
        )
    out += _encode_samples(profile, strings, locations)
    out += _encode_locations(locations, strings)
    comments = [profile.title, *(f"{name}: {text}" for name, text in profile.facts.items())]
    out.append(_encode_packed(13, [strings[text] for text in comments if text]))
    out.append(_encode_number(9, _round_to_int64(profile.taken_at * 1e9)))
    out.append(_encode_number(10, _round_to_int64(profile.seconds * 1e9)))
    out.append(_encode_number(14, strings[value]))
    # Last, for strings are added until here; the order of fields does not matter.
    out += [_encode_bytes(6, text.encode("utf-8", "backslashreplace")) for text in strings]
    return gzip.compress(b"".join(out), mtime=0)


def _encode_samples(
    profile: Profile, strings: "_StringTable", locations: dict[Frame, int]
) -> Iterator[bytes]:
    """Encode the samples. Numbers the frames that they contain in ``locations``."""
    shown = profile_tables.list_shown_values(profile)
    for sample in profile.samples:
        # The innermost frame comes first here.
        stack = [_number_key(locations, frame) for frame in reversed(call_tree.list_frames(sample))]
        numbers = [
            _round_to_int64(sample.values[profile.column(v.key)] * _find_unit(v.unit)[1])
            for v in shown
        ]
        labels = [
            _encode_message(3, _encode_number(1, strings[k]), _encode_number(2, strings[text]))
            for k, text in sample.labels.items()
        ]
        yield _encode_message(2, _encode_packed(1, stack), _encode_packed(2, numbers), *labels)


def _encode_locations(locations: Mapping[Frame, int], strings: "_StringTable") -> Iterator[bytes]:
    """Encode the numbered frames, and the modules and functions that they are of."""
    modules: dict[str, int] = {}
    functions: dict[tuple[str, str], int] = {}
    for frame, number in locations.items():
        function = _number_key(functions, (frame.function, frame.file))
        line = _encode_message(4, _encode_number(1, function), _encode_number(2, frame.line))
        module = _encode_number(2, _number_key(modules, frame.module))
        yield _encode_message(4, _encode_number(1, number), module, line)
    for name, number in modules.items():
        # has_functions: pprof need not look for symbols itself.
        yield _encode_message(
            3, _encode_number(1, number), _encode_number(5, strings[name]), _encode_number(7, 1)
        )
    for (name, file), number in functions.items():
        yield _encode_message(
            5,
            _encode_number(1, number),
            _encode_number(2, strings[name]),
            _encode_number(3, strings[name]),
            _encode_number(4, strings[file]),
        )


class _StringTable(dict[str, int]):
    """Texts, numbered as they appear."""

    def __init__(self, first: Iterable[str]):
        super().__init__((text, i) for i, text in enumerate(first))

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]


def _number_key(numbers: dict[_Key, int], key: _Key) -> int:
    return numbers.setdefault(key, len(numbers) + 1)


def _find_unit(unit: str) -> tuple[str, float]:
    return _UNITS.get(unit, (unit, 1.0))


def _round_to_int64(number: float) -> int:
    return max(-_INT64_MAX, min(_INT64_MAX, round(number)))


def _encode_varint(number: int) -> bytes:
    """Encode a number as seven bits a byte, the lowest first; a negative one as its 64-bit two's
    complement.
    """
    number &= 2**64 - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _encode_number(field: int, number: int) -> bytes:
    """Encode a field of a number; nothing for 0, which is what an absent field means."""
    return _encode_varint(field << 3) + _encode_varint(number) if number else b""


def _encode_bytes(field: int, data: bytes) -> bytes:
    return _encode_varint(field << 3 | 2) + _encode_varint(len(data)) + data


def _encode_packed(field: int, numbers: Iterable[int]) -> bytes:
    data = b"".join(_encode_varint(number) for number in numbers)
    return _encode_bytes(field, data) if data else b""


def _encode_message(field: int, *parts: bytes) -> bytes:
    return _encode_bytes(field, b"".join(parts))
