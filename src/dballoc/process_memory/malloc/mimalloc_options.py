"""mimalloc's table of options in a process (its src/options.c, struct mi_option_desc_s), the same
in branches 1, 2 and 3. Pure.

    value   long; sizes in KiB
    init    int: 0 not read yet, 1 the default, 2 set from outside
    option  int: its number
    name    the address of its name
    legacy  the address of an older name, or 0
"""

import struct
from collections.abc import Collection, Sequence

from dballoc.allocators.setting_effects import SettingInForce

# Bytes from an address on.
Piece = tuple[int, bytes]
_RECORD = struct.Struct("<qIIQQ")
_NAME = 16
_SET, _MOST_OPTIONS = 2, 256


def parse_option_table(
    pieces: Sequence[Piece], names: Collection[str]
) -> dict[str, SettingInForce]:
    """Parse the table in the ``pieces`` of a library's memory: the options by their names, the
    older ones, too. ``names``: those that may be in it.
    """
    by_address = {address: name for name in names for address in _find_texts(pieces, name.encode())}
    options: dict[str, SettingInForce] = {}
    for _, data in pieces:
        words = memoryview(data[: len(data) - len(data) % 8]).cast("Q")
        for at, word in enumerate(words):
            start = 8 * at - _NAME
            if word not in by_address or start < 0 or start + _RECORD.size > len(data):
                continue
            value, init, number, _, legacy = _RECORD.unpack_from(data, start)
            if init > _SET or number >= _MOST_OPTIONS:
                continue
            in_force = SettingInForce(value=str(value), is_set=init == _SET)
            for address in (word, legacy):
                if name := by_address.get(address):
                    options.setdefault(name, in_force)
    return options


def _find_texts(pieces: Sequence[Piece], text: bytes) -> list[int]:
    """Return the addresses at which a text stands, maybe as the end of a longer one: linkers merge
    texts with equal ends.
    """
    wanted = text + b"\0"
    addresses = []
    for start, data in pieces:
        at = data.find(wanted)
        while at >= 0:
            addresses.append(start + at)
            at = data.find(wanted, at + 1)
    return addresses
