"""Compare settings however they are written: names with ``-`` or ``_``, sizes with a unit or in
bytes, switches as ``ON``, ``1`` or nothing; and the names and versions of servers and allocators
with those that a post states. Pure.
"""

import re
from collections.abc import Mapping

from dballoc.experiment.durations_and_sizes import parse_size

Setting = str | bool | int | float

# Variables whose own name begins with skip; any other skip-NAME switches NAME off.
_SKIP_VARIABLES = frozenset(
    {
        "skip_external_locking",
        "skip_grant_tables",
        "skip_name_resolve",
        "skip_networking",
        "skip_replica_start",
        "skip_show_database",
        "skip_slave_start",
    }
)
# A prefix, and what it makes of the option behind it.
_SWITCHES = {"skip_": "0", "disable_": "0", "enable_": "1"}
_ON, _OFF = frozenset({"", "on", "true", "yes"}), frozenset({"off", "false", "no"})
_OPPOSITE = {"0": "1", "1": "0"}


def normalize_name(name: str) -> str:
    """Return an option's name with ``_``, in small letters, without ``loose-``."""
    return name.strip().lstrip("-").lower().replace("-", "_").removeprefix("loose_")


def write_value(value: Setting) -> str:
    """Return a value as text: TOML's ``true`` is ``ON``."""
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return str(value).strip()


def normalize_value(value: Setting) -> str:
    """Return what a value means, whatever its spelling: a switch as 1 or 0, a size in bytes, a list
    in alphabetical order; else the text in small letters.
    """
    text = write_value(value).lower().strip("'\"")
    if text in _ON:
        return "1"
    if text in _OFF:
        return "0"
    try:
        return f"{float(text):g}" if re.fullmatch(r"\d+\.\d+", text) else str(_read_whole(text))
    except ValueError:
        return ",".join(sorted(part.strip() for part in text.split(",")))


def _read_whole(text: str) -> int:
    """Return a whole number or the bytes of a size. Raises ValueError for anything else."""
    return int(text) if text.isdecimal() else parse_size(text)


def spread_settings(settings: Mapping[str, Setting]) -> dict[str, str]:
    """Return settings under normalized names. ``skip-NAME`` and ``enable-NAME`` are values of NAME;
    an option that is a list of settings (``a=1;b={c=2;d=3}``, as RocksDB's) becomes a setting each,
    ``NAME: a`` and so on; a name for the binary log says that it is on.
    """
    spread: dict[str, str] = {}
    for written, value in settings.items():
        name, text = normalize_name(written), write_value(value)
        prefix = next((p for p in _SWITCHES if name.startswith(p)), None)
        if prefix and name not in _SKIP_VARIABLES:
            switch = _SWITCHES[prefix]
            number = switch if normalize_value(text) != "0" else _OPPOSITE[switch]
            name, text = name.removeprefix(prefix), "ON" if number == "1" else "OFF"
        if name == "log_bin":
            text = "OFF" if normalize_value(text) == "0" else "ON"
        if ";" in text:
            spread |= {f"{name}: {key}": inner for key, inner in _split_list(text)}
        else:
            spread[name] = text or "ON"
    return spread


def _split_list(text: str) -> list[tuple[str, str]]:
    """Return the settings in a list of them, those within ``NAME={…}`` included."""
    flat = re.sub(r"(?<![\w.])[\w.]+\s*=\s*\{", ";", text).replace("}", ";")
    items = [item.partition("=") for item in flat.split(";") if item.strip()]
    return [(key.strip().lower(), value.strip() or "ON") for key, _, value in items]


_REMARK = re.compile(r" ?\([^()]*\)")
_VERSION = re.compile(r"^(?P<name>.*?)\s+v?(?P<version>[0-9]+(?:[.-][0-9A-Za-z]+)*)$")


def is_same_release(stated: str, actual: str) -> bool:
    """Whether ``actual`` is what a post states: the same name, and a version that begins with the
    stated one (``MariaDB 10.11`` is any of its series). Remarks in brackets do not count.
    """
    stated_name, stated_version = _split_release(stated)
    name, version = _split_release(actual)
    return stated_name == name and version[: len(stated_version)] == stated_version


# An allocator that is in the server and not yet known, which may be any.
ANY_MALLOC = "a malloc"


def drop_remarks(text: str) -> str:
    """Return a text in small letters and without what is in brackets."""
    return _REMARK.sub("", " ".join(text.lower().split()))


def _split_release(text: str) -> tuple[str, list[str]]:
    """Return the name in small letters and the parts of the version."""
    text = drop_remarks(text)
    match = _VERSION.match(text)
    return (match["name"], re.split(r"[.-]", match["version"])) if match else (text, [])


def is_same_variant(stated: str, actual: str) -> bool:
    """Whether an allocator with its settings, ``NAME VERSION, SETTING=VALUE, …``, is what a post
    states. The order of the settings does not count.
    """
    first, second = (
        [part.strip() for part in drop_remarks(text).split(",")] for text in (stated, actual)
    )
    same = second[0] == ANY_MALLOC or is_same_release(first[0], second[0])
    return same and sorted(first[1:]) == sorted(second[1:])
