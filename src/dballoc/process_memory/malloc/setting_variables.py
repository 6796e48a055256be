"""A malloc's settings as variables of its library, where the library names them: gperftools' flags
among its exported symbols, jemalloc's ``opt_…`` in a library that is not stripped. Pure.

Which symbols these are is data: ``variables`` in catalogue/tunables.toml.
"""

import re
import struct
from collections.abc import Mapping
from typing import Any

from dballoc.allocators.setting_effects import SettingInForce

_WHOLE = {4: "<i", 8: "<q"}
_REAL = "DECLARE_double"


def match_setting(family: Mapping[str, Any], symbol: str) -> str | None:
    """Return the setting of a family that a symbol is the variable of; None if it is of none that
    is a number or a switch.
    """
    match = re.match(family["variables"], symbol)
    name = match["name"] if match else None
    kind = family["settings"].get(name, {}).get("kind")
    return name if kind in ("count", "size", "number", "flag") else None


def decode_setting(family: Mapping[str, Any], symbol: str, raw: bytes) -> SettingInForce | None:
    """Decode the bytes of a setting's variable; None of a size that no number has."""
    if len(raw) == 1:
        on, off = (words[0] for words in family["flags"])
        return SettingInForce(value=on if raw[0] else off, is_set=True)
    if len(raw) not in _WHOLE:
        return None
    form = "<d" if _REAL in symbol else _WHOLE[len(raw)]
    (value,) = struct.unpack(form, raw)
    return SettingInForce(value=f"{value:.15g}" if form == "<d" else str(value), is_set=True)
