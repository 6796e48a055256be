"""The settings that a variant gives its allocator: which they are, whether there are such, and
whether they were taken. Pure.

The names, values and bounds are data: catalogue/tunables.toml.
"""

import difflib
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dballoc import catalogue
from dballoc.allocators.find_library import Allocator
from dballoc.errors import UsageError

_NEAR = 0.85
_RANGE = re.compile(r"([\d.]*)-([\d.]*)")
_SIZE = re.compile(r"(\d+)([KMG]?)(?:i?B)?", re.IGNORECASE)
_FACTORS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True)
class Given:
    """One setting as a variant has it. ``place``: ``tunables``, or ``env NAME``."""

    name: str
    value: str
    place: str

    @property
    def words(self) -> str:
        """How the user wrote it, about: ``tunables narenas = 2``."""
        return (
            f"{self.place} = {self.value}"
            if self.place.startswith("env ")
            else f"{self.place}: {self.name} = {self.value}"
        )


def family(allocator: Allocator) -> dict[str, Any] | None:
    """The allocator's part of tunables.toml; None for one that the catalogue does not know."""
    name = allocator.name.partition("@")[0]
    return next((f for f in catalogue.tunables().values() if name in f["allocators"]), None)


def given(
    allocator: Allocator, tunables: Mapping[str, str], env: Mapping[str, str], where: str
) -> list[Given]:
    """All settings of a variant, those in ``env`` last. UsageError that begins with ``where`` for a
    variable that looks like a setting and is none of this allocator's, or for a setting that is
    given twice.
    """
    mine = family(allocator)
    if mine is None:
        return []
    found = [Given(name, value, "tunables") for name, value in tunables.items()]
    for variable, value in env.items():
        found += _of_variable(allocator, mine, variable, value, where)
    seen: dict[str, Given] = {}
    for one in found:
        before = seen.setdefault(one.name, one)
        if before.value != one.value:
            raise UsageError(f"{where}: {one.name} is given twice: {before.words}; {one.words}")
    return found


def _of_variable(
    allocator: Allocator, mine: dict[str, Any], variable: str, value: str, where: str
) -> list[Given]:
    """The settings in one variable of ``env``; none if it has nothing to do with a malloc."""
    place = f"env {variable}"
    style = allocator.entry["tunables"]
    pattern = style.get("env", "")
    if variable == pattern:
        return [
            Given(name, text, f"{place}: {name}")
            for name, text in _unpack(style, value, f"{where}: {place}")
        ]
    if name := _own_variable(mine, variable):
        return [Given(name, value, place)]
    start, _, rest = pattern.partition("{")
    if rest and variable.startswith(start) and variable not in allocator.entry.get("report", {}):
        return [Given(variable.removeprefix(start).lower(), value, place)]
    if variable in allocator.entry.get("report", {}):
        return []
    if variable == "GLIBC_TUNABLES":
        # The loader and other parts of glibc read it under any malloc.
        ours = catalogue.allocators()["glibc"]["tunables"]
        names = [n for n, _ in _unpack(ours, value, f"{where}: {place}") if "." not in n]
        if not names:
            return []
        raise UsageError(
            f"{where}: {place}: glibc.malloc.{names[0]} is a setting of glibc's malloc, not of "
            f"{allocator.name}"
        )
    # The longest beginning decides: MALLOC_CONF is jemalloc's, MALLOC_ is glibc's.
    readers = [
        (len(r), title, f)
        for title, f in catalogue.tunables().items()
        for r in f["reads"]
        if variable.startswith(r)
    ]
    if readers and (owner := max(readers, key=lambda r: r[0])[1:])[1] is not mine:
        raise UsageError(f"{where}: {place} is a setting of {owner[0]}, not of {allocator.name}")
    known = _variables(allocator, mine)
    near = difflib.get_close_matches(variable, known, 1, _NEAR)
    if readers or near:
        raise UsageError(
            f"{where}: {place}: {allocator.name} has no such variable; "
            + _hint(variable, known, allocator)
        )
    return []


def _own_variable(mine: dict[str, Any], variable: str) -> str | None:
    return next(
        (name for name, s in mine["settings"].items() if s.get("variable") == variable), None
    )


def _variables(allocator: Allocator, mine: dict[str, Any]) -> list[str]:
    """Every variable of the environment that this allocator reads."""
    pattern = allocator.entry["tunables"].get("env", "")
    own = [s["variable"] for s in mine["settings"].values() if "variable" in s]
    if "{" not in pattern:
        return [*filter(None, [pattern]), *own]
    return [*(pattern.format(NAME=name.upper()) for name in mine["settings"]), *own]


def _unpack(style: Mapping[str, Any], text: str, where: str) -> list[tuple[str, str]]:
    """Names and values of a variable that holds several; of another part of glibc the whole
    name.
    """
    prefix, joint = (
        style["item"].partition("{name}")[0],
        style["item"].partition("{name}")[2].partition("{value}")[0],
    )
    found = []
    for item in filter(None, text.split(style["join"])):
        name, equals, value = item.partition(joint)
        if not equals:
            example = style["item"].format(name="NAME", value="VALUE")
            raise UsageError(f"{where}: {item!r} is not of the form {example}")
        found.append((name.removeprefix(prefix), value))
    return found


def check(
    allocator: Allocator, found: Collection[Given], here: Collection[str] | None, where: str
) -> None:
    """UsageError that begins with ``where`` for a name or a value that the version which is here
    does not know.

    ``here``: the names that this very library or loader is seen to have
    (:func:`dballoc.allocators.reported_tunables.names`); None where that cannot be seen, and the
    catalogue alone tells.
    """
    mine = family(allocator)
    for one in found if mine else ():
        assert mine
        setting = mine["settings"].get(one.name)
        if setting is None and (one.name in here if here is not None else "." in one.name):
            # not in the catalogue, and there; or of another part of a glibc that has no list
            continue
        label = (
            f"{where}: {one.place}"
            if one.place.startswith("env ")
            else f"{where}: {one.place}: {one.name}"
        )
        names = {n for n, s in mine["settings"].items() if exists(s, allocator.version)} | set(
            here or ()
        )
        if not mine["settings"]:
            raise UsageError(f"{label}: {allocator.name} has no settings")
        if setting is None:
            raise UsageError(
                f"{label}: {_title(allocator)} has no such setting; "
                f"{_hint(one.name, names, allocator)}"
            )
        seen = here is not None and one.name in here
        if not seen and (
            (here is not None and _listable(mine, setting))
            or not exists(setting, allocator.version)
        ):
            versions = f", only versions {_ranges(setting)}" if "versions" in setting else ""
            raise UsageError(
                f"{label}: {_title(allocator)} has no such setting{versions}; "
                f"{_hint('', names, allocator)}"
            )
        if wanted := refusal(mine, setting, one.value, allocator.version):
            raise UsageError(f"{label}: {one.value!r} is not {wanted}")


def _listable(mine: dict[str, Any], setting: dict[str, Any]) -> bool:
    """Whether a list of names from this library would hold the setting."""
    return "names" in mine or (
        mine.get("dump", {}).get("whole", False) and setting.get("dumped") is not False
    )


def _title(allocator: Allocator) -> str:
    return " ".join(filter(None, [allocator.name.partition("@")[0], allocator.version]))


def _hint(name: str, known: Collection[str], allocator: Allocator) -> str:
    near = difflib.get_close_matches(name, sorted(known), 1)
    return (
        f"did you mean {near[0]!r}?"
        if near
        else f"see: dballoc list settings {allocator.name.partition('@')[0]}"
    )


def exists(setting: Mapping[str, Any], version: str) -> bool:
    """Whether that version has the setting; one of an unknown version is taken to have it."""
    numbers = _numbers(version)
    if "versions" not in setting or not numbers:
        return True
    return any(_within(numbers, text) for text in setting["versions"])


def _within(numbers: tuple[int, ...], text: str) -> bool:
    ends = _RANGE.fullmatch(text)
    assert ends, text
    low, high = _numbers(ends[1]), _numbers(ends[2])
    # 2.0.9 is within "-2.0".
    return (not low or numbers >= low) and (not high or numbers[: len(high)] <= high)


def _numbers(version: str) -> tuple[int, ...]:
    start = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(n) for n in start[0].split(".")) if start else ()


def _ranges(setting: Mapping[str, Any]) -> str:
    return ", ".join(setting.get("versions", []))


def refusal(
    mine: Mapping[str, Any], setting: Mapping[str, Any], value: str, version: str
) -> str | None:
    """What the value should be, in words, if it is not that."""
    words: list[str] = setting.get("values", [])
    if value in words:
        return None
    kind = setting["kind"]
    if kind == "text":
        return None
    if kind in ("choice", "flag"):
        choices = words if kind == "choice" else [w for way in mine["flags"] for w in way]
        return (
            None
            if value in choices
            else f"one of {', '.join(words or [mine['flags'][0][0], mine['flags'][1][0]])}"
        )
    least, most = setting.get("least", -math.inf), bounds(setting, version)
    number = _number(mine, setting, value)
    if number is not None and least <= number <= most:
        return None
    span = (
        f"from {least} to {most:.0f}"
        if most < math.inf
        else f"of {least} or more"
        if least > -math.inf
        else ""
    )
    what = {"count": "a whole number", "number": "a number", "size": "a number of bytes"}[kind]
    if kind == "size" and mine.get("suffixes"):
        what = "a size, like 1048576 or 64M,"
    return " ".join(filter(None, [what, span, *([f"or {' or '.join(words)}"] if words else [])]))


def values(mine: Mapping[str, Any], setting: Mapping[str, Any], version: str) -> str:
    """What a setting may be, in words; empty for any text."""
    words: list[str] = setting.get("values", [])
    if setting["kind"] == "flag":
        return f"{mine['flags'][0][0]}, {mine['flags'][1][0]}"
    if setting["kind"] in ("choice", "text"):
        return ", ".join(words)
    least, most = setting.get("least"), bounds(setting, version)
    span = f"{'' if least is None else least}–{'' if most == math.inf else f'{most:.0f}'}"
    return ", ".join([*([span] if span != "–" else []), *words])


def bounds(setting: Mapping[str, Any], version: str) -> float:
    """The most that this version takes."""
    numbers = _numbers(version)
    for until, most in setting.get("most_until", {}).items():
        high = _numbers(until)
        if numbers and numbers[: len(high)] <= high:
            return float(most)
    return float(setting.get("most", math.inf))


def _number(mine: Mapping[str, Any], setting: Mapping[str, Any], value: str) -> float | None:
    if setting["kind"] == "number":
        try:
            return float(value)
        except ValueError:
            return None
    if setting["kind"] == "size" and mine.get("suffixes") and (size := _SIZE.fullmatch(value)):
        return int(size[1]) * _FACTORS[size[2].upper()]
    return _whole(value)


def _whole(text: str) -> int | None:
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    return int(text, 16) if re.fullmatch(r"0[xX][\da-fA-F]+", text) else None


def not_taken(
    allocator: Allocator, found: Collection[Given], dump: Mapping[str, str]
) -> str | None:
    """The first setting that the allocator's own dump shows with another value, in words. What it
    does not show it does not contradict.
    """
    mine = family(allocator)
    if mine is None:
        return None
    for one in found:
        setting = mine["settings"].get(one.name, {"kind": "text"})
        said = dump.get(dumped_name(mine, one.name) or "")
        if said is not None and not _same(
            mine, setting, one.value, setting.get("shows", {}).get(said, said)
        ):
            return f"{one.words} was not taken: {allocator.name} itself says {said}"
    return None


def dumped_name(mine: Mapping[str, Any], name: str) -> str | None:
    """What the allocator's dump calls a setting; None if it does not show it."""
    own = mine["settings"].get(name, {}).get("dumped", True)
    if own is False or "dump" not in mine:
        return None
    if isinstance(own, str):
        return own
    return name if "." in name else str(mine["dump"].get("item", "{name}")).format(name=name)


def _same(mine: Mapping[str, Any], setting: Mapping[str, Any], asked: str, said: str) -> bool:
    if asked == said:
        return True
    if setting["kind"] != "choice" and asked in setting.get("values", []):
        return True  # "default": whatever it made of it
    if (
        setting["kind"] in ("flag", "choice")
        and "flags" in mine
        and (way := _way(mine, asked)) is not None
    ):
        return way == _way(mine, said)
    number, shown = _number(mine, setting, asked), _whole(said)
    if number is None or shown is None:
        # A number behind other words is nothing that can be compared, a word is.
        return setting["kind"] == "number" or (
            setting["kind"] == "text" and number is None and not said
        )
    unit = mine.get("dump", {}).get("size", 1) if setting["kind"] == "size" else 1
    return shown == math.ceil(number / unit)


def _way(mine: Mapping[str, Any], value: str) -> bool | None:
    return next(
        (on for on, words in zip((True, False), mine["flags"], strict=True) if value in words), None
    )
