"""The loader's list of tunables in a process (glibc's elf/dl-tunable-types.h, struct _tunable), as
glibc 2.33 and later have it; before, the names in it are pointers. Pure.

    name       char[]: glibc.malloc.arena_max
    type       at the next multiple of 8: code (int, padded), least and most: 24 bytes
    default    16 bytes, since 2.41 or so
    value      8 bytes, since 2.39 16; a number, or a text's address
    is set     a byte: the environment has given it a value that is within its bounds
    level      until 2.38, at the next multiple of 4: what a privileged program does with it
    alias      char[]: MALLOC_ARENA_MAX; empty for most

How long names and aliases are depends on the version, so one known record shows where all parts
lie.
"""

import re
import struct
from typing import NamedTuple

from dballoc.allocators.setting_effects import SettingInForce

_NAME = re.compile(rb"glibc\.[a-z0-9_]{1,32}\.[a-z0-9_]{1,48}\0")
_SAMPLE, _SAMPLE_ALIAS = b"glibc.malloc.perturb\0", b"MALLOC_PERTURB_\0"
# Its type: a signed number of 32 bits (0), from 0 to 255.
_SAMPLE_TYPE = struct.pack("<QQQ", 0, 0, 255)
_TEXT_TYPE = 3
_LONGEST_RECORD = 512
# Where the value and "is set" lie behind the type, by how far the alias is from its end.
_PLACES_BY_ALIAS = {16: (0, 8), 17: (0, 16), 33: (16, 32)}
_MOST_RECORDS = 256


class _Record(NamedTuple):
    """Offsets in a record, in bytes."""

    kind: int
    value: int
    is_set: int


def parse_tunable_list(data: bytes) -> dict[str, SettingInForce]:
    """Parse the loader's data, in which the list stands: the tunables by their whole names; none if
    it holds no list of a known layout.
    """
    layout = _find_layout(data)
    if layout is None:
        return {}
    tunables: dict[str, SettingInForce] = {}
    for match in _NAME.finditer(data):
        record = data[match.start() : match.start() + layout.is_set + 1]
        if len(record) <= layout.is_set or len(tunables) >= _MOST_RECORDS:
            break
        (kind,) = struct.unpack_from("<I", record, layout.kind)
        (number,) = struct.unpack_from("<Q", record, layout.value)
        if kind > _TEXT_TYPE or record[layout.is_set] > 1:
            continue
        tunables[match[0][:-1].decode()] = SettingInForce(
            value=None if kind == _TEXT_TYPE else str(number), is_set=bool(record[layout.is_set])
        )
    return tunables


def _find_layout(data: bytes) -> _Record | None:
    """Find where the parts of a record lie, by the one of glibc.malloc.perturb."""
    start = data.find(_SAMPLE)
    if start < 0:
        return None
    record = data[start : start + _LONGEST_RECORD]
    kind, alias = record.find(_SAMPLE_TYPE, len(_SAMPLE)), record.find(_SAMPLE_ALIAS)
    end = kind + len(_SAMPLE_TYPE)
    places = _PLACES_BY_ALIAS.get(alias - end)
    if kind < 0 or places is None:
        return None
    return _Record(kind, *(end + place for place in places))
