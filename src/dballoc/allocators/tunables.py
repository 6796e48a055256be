"""The settings that a variant gives its allocator: which they are, whether the allocator has them,
and whether it has applied them. Pure.

The names, values and bounds are data: catalogue/tunables.toml.
"""

import difflib
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dballoc import catalogue
from dballoc.allocators import version_ranges
from dballoc.allocators.find_library import Allocator
from dballoc.ground.errors import UsageError

_NEAR = 0.85
_SIZE = re.compile(r"(\d+)([KMG]?)(?:i?B)?", re.IGNORECASE)
_FACTORS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True)
class VariantSetting:
    """One setting as a variant has it. ``place``: ``tunables``, or ``env NAME``."""

    name: str
    value: str
    place: str

    @property
    def words(self) -> str:
        """About how the user wrote it: ``tunables: narenas = 2``."""
        return (
            f"{self.place} = {self.value}"
            if self.place.startswith("env ")
            else f"{self.place}: {self.name} = {self.value}"
        )


def find_family(allocator: Allocator) -> dict[str, Any] | None:
    """Return the allocator's part of tunables.toml; None if the catalogue does not know it."""
    return find_family_of(allocator.name.partition("@")[0])


def find_family_of(name: str) -> dict[str, Any] | None:
    """Return the part of tunables.toml for the catalogue's allocator ``name``; None without one."""
    return next((f for f in catalogue.tunables().values() if name in f["allocators"]), None)


def list_variant_settings(
    allocator: Allocator, tunables: Mapping[str, str], env: Mapping[str, str], where: str
) -> list[VariantSetting]:
    """List all settings of a variant, those in ``env`` last. Raises UsageError that begins
    with ``where`` for a variable that looks like a setting but is none of this allocator's, or for
    a setting with two different values.
    """
    family = find_family(allocator)
    if family is None:
        return []
    settings = [VariantSetting(name, value, "tunables") for name, value in tunables.items()]
    for variable, value in env.items():
        settings += _parse_variable(allocator, family, variable, value, where)
    first_of_name: dict[str, VariantSetting] = {}
    for setting in settings:
        first = first_of_name.setdefault(setting.name, setting)
        if first.value != setting.value:
            raise UsageError(
                f"{where}: {setting.name} is given twice: {first.words}; {setting.words}"
            )
    return settings


def _parse_variable(
    allocator: Allocator, family: dict[str, Any], variable: str, value: str, where: str
) -> list[VariantSetting]:
    """Return the settings in one variable of ``env``; none if it is not about malloc."""
    place = f"env {variable}"
    style = allocator.entry["tunables"]
    pattern = style.get("env", "")
    if variable == pattern:
        return [
            VariantSetting(name, text, f"{place}: {name}")
            for name, text in _unpack(style, value, f"{where}: {place}")
        ]
    if name := find_setting_of_variable(family, variable):
        return [VariantSetting(name, value, place)]
    start, _, rest = pattern.partition("{")
    if rest and variable.startswith(start) and variable not in allocator.entry.get("report", {}):
        return [VariantSetting(variable.removeprefix(start).lower(), value, place)]
    if variable in allocator.entry.get("report", {}):
        return []
    if variable == "GLIBC_TUNABLES":
        # The loader and other parts of glibc read it under any malloc.
        glibc_style = catalogue.allocators()["glibc"]["tunables"]
        names = [n for n, _ in _unpack(glibc_style, value, f"{where}: {place}") if "." not in n]
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
    if readers and (owner := max(readers, key=lambda r: r[0])[1:])[1] is not family:
        raise UsageError(f"{where}: {place} is a setting of {owner[0]}, not of {allocator.name}")
    variables = _list_variables(allocator, family)
    near = difflib.get_close_matches(variable, variables, 1, _NEAR)
    if readers or near:
        raise UsageError(f"{where}: {place}: {refuse_variable(allocator, family, variable)}")
    return []


def refuse_variable(allocator: Allocator, family: dict[str, Any], variable: str) -> str:
    """Return in words that an allocator reads no such variable, and which one is meant."""
    variables = _list_variables(allocator, family)
    return f"{allocator.name} has no such variable; " + _suggest_name(
        variable, variables, allocator
    )


def find_settings_in_environment(name: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that an environment gives the catalogue's allocator ``name``, by name,
    without those that dballoc adds to every start. What has not the form of a setting is left out.
    """
    entry = catalogue.allocators()[name]
    style, report = entry["tunables"], entry.get("report", {})
    family = find_family_of(name)
    added = {*style.get("always", []), *style.get("strict", []), *report.values()}
    start, _, rest = style.get("env", "").partition("{")
    settings = {}
    for variable, value in environment.items():
        if family and (setting := find_setting_of_variable(family, variable)):
            settings[setting] = value
        elif "join" in style and variable == style["env"]:
            items = (item for item in value.split(style["join"]) if item not in added)
            settings |= dict(filter(None, (parse_item(style, item) for item in items)))
        elif rest and variable.startswith(start) and variable not in report:
            settings[variable.removeprefix(start).lower()] = value
    return settings


def parse_item(style: Mapping[str, Any], item: str) -> tuple[str, str] | None:
    """Return the name and value in an item of a catalogue's form; None if it has another."""
    prefix, joint = _split_form(style)
    name, equals, value = item.removeprefix(prefix).partition(joint)
    return (name, value) if item.startswith(prefix) and equals and name else None


def _split_form(style: Mapping[str, Any]) -> tuple[str, str]:
    """Return what the form of an item has before the name, and between name and value."""
    prefix, _, tail = style["item"].partition("{name}")
    return prefix, tail.partition("{value}")[0]


def find_setting_of_variable(family: Mapping[str, Any], variable: str) -> str | None:
    """Return the setting that has an environment variable of its own; None if none has this."""
    return next(
        (name for name, s in family["settings"].items() if s.get("variable") == variable), None
    )


def _list_variables(allocator: Allocator, family: dict[str, Any]) -> list[str]:
    """List every environment variable that this allocator reads."""
    pattern = allocator.entry["tunables"].get("env", "")
    of_one_setting = [s["variable"] for s in family["settings"].values() if "variable" in s]
    if "{" not in pattern:
        return [*filter(None, [pattern]), *of_one_setting]
    by_name = (pattern.format(NAME=name.upper()) for name in family["settings"])
    return [*by_name, *of_one_setting]


def _unpack(style: Mapping[str, Any], text: str, where: str) -> list[tuple[str, str]]:
    """Return the names and values in a variable that holds several settings. The name of a setting
    of another part of glibc keeps its prefix.
    """
    prefix, joint = _split_form(style)
    settings = []
    for item in filter(None, text.split(style["join"])):
        name, equals, value = item.partition(joint)
        if not equals:
            example = style["item"].format(name="NAME", value="VALUE")
            raise UsageError(f"{where}: {item!r} is not of the form {example}")
        settings.append((name.removeprefix(prefix), value))
    return settings


def check_settings(
    allocator: Allocator,
    settings: Collection[VariantSetting],
    reported_names: Collection[str] | None,
    where: str,
) -> None:
    """Check that the installed version of the allocator has these settings and takes their values;
    UsageError that begins with ``where`` if not.

    ``reported_names``: the settings that this very library or loader shows
    (:func:`dballoc.allocators.reported_tunables.list_reported_names`); None where it shows none, so
    that the catalogue alone decides.
    """
    family = find_family(allocator)
    for setting in settings if family else ():
        assert family
        _check_setting(allocator, family, setting, reported_names, where)


def _check_setting(
    allocator: Allocator,
    family: dict[str, Any],
    setting: VariantSetting,
    reported_names: Collection[str] | None,
    where: str,
) -> None:
    """Check one setting as :func:`check_settings` does."""
    label = (
        f"{where}: {setting.place}"
        if setting.place.startswith("env ")
        else f"{where}: {setting.place}: {setting.name}"
    )
    if fault := find_fault(allocator, family, setting.name, setting.value, reported_names):
        raise UsageError(f"{label}: {fault}")


def find_fault(
    allocator: Allocator,
    family: dict[str, Any],
    name: str,
    value: str,
    reported_names: Collection[str] | None,
) -> str | None:
    """Return in words why this version of an allocator does not take a setting; None if nothing
    speaks against it. ``reported_names``: as in :func:`check_settings`.
    """
    row = family["settings"].get(name)
    is_reported = reported_names is not None and name in reported_names
    if row is None and (is_reported or (reported_names is None and "." in name)):
        # The catalogue lacks it, but the allocator has it; or it is a setting of another part of a
        # glibc that lists none.
        return None
    names = {n for n, r in family["settings"].items() if is_in_version(r, allocator.version)} | set(
        reported_names or ()
    )
    if not family["settings"]:
        return f"{allocator.name} has no settings"
    if row is None:
        return (
            f"{_spell_version(allocator)} has no such setting; "
            f"{_suggest_name(name, names, allocator)}"
        )
    lacking = reported_names is not None and not is_reported and _is_listable(family, row)
    # A list proves a setting, unless it goes on to show one that has no effect any more.
    proved = is_reported and not row.get("lingers", False)
    if lacking or (not proved and not is_in_version(row, allocator.version)):
        versions = f", only versions {_join_versions(row)}" if "versions" in row else ""
        return (
            f"{_spell_version(allocator)} has no such setting{versions}; "
            f"{_suggest_name('', names, allocator)}"
        )
    if expected := describe_expected_value(family, row, value, allocator.version):
        return f"{value!r} is not {expected}"
    return None


def _is_listable(family: dict[str, Any], setting: dict[str, Any]) -> bool:
    """Whether a list of names from this library would include the setting."""
    return "names" in family or (
        family.get("dump", {}).get("whole", False) and setting.get("dumped") is not False
    )


def _spell_version(allocator: Allocator) -> str:
    return " ".join(filter(None, [allocator.name.partition("@")[0], allocator.version]))


def _suggest_name(name: str, names: Collection[str], allocator: Allocator) -> str:
    near = difflib.get_close_matches(name, sorted(names), 1)
    return (
        f"did you mean {near[0]!r}?"
        if near
        else f"see: dballoc list settings {allocator.name.partition('@')[0]}"
    )


def is_in_version(setting: Mapping[str, Any], version: str) -> bool:
    """Whether that version has the setting; an unknown version is taken to have it."""
    return "versions" not in setting or version_ranges.is_in_any(version, setting["versions"])


def _join_versions(setting: Mapping[str, Any]) -> str:
    return ", ".join(setting.get("versions", []))


def describe_expected_value(
    family: Mapping[str, Any], setting: Mapping[str, Any], value: str, version: str
) -> str | None:
    """Return in words what a value should be; None if it is valid."""
    words: list[str] = setting.get("values", [])
    if value in words:
        return None
    kind = setting["kind"]
    if kind == "text":
        return None
    if kind in ("choice", "flag"):
        choices = words if kind == "choice" else [w for way in family["flags"] for w in way]
        return (
            None
            if value in choices
            else f"one of {', '.join(words or [family['flags'][0][0], family['flags'][1][0]])}"
        )
    least, most = setting.get("least", -math.inf), find_maximum(setting, version)
    number = _parse_number(family, setting, value)
    if number is not None and least <= number <= most:
        return None
    span = (
        f"from {least} to {most:.0f}"
        if most < math.inf
        else f"of {least} or more"
        if least > -math.inf
        else ""
    )
    noun = {"count": "a whole number", "number": "a number", "size": "a number of bytes"}[kind]
    if kind == "size" and family.get("suffixes"):
        noun = "a size, like 1048576 or 64M,"
    return " ".join(filter(None, [noun, span, *([f"or {' or '.join(words)}"] if words else [])]))


def describe_values(family: Mapping[str, Any], setting: Mapping[str, Any], version: str) -> str:
    """Return in words which values a setting may have; empty for any text."""
    words: list[str] = setting.get("values", [])
    if setting["kind"] == "flag":
        return f"{family['flags'][0][0]}, {family['flags'][1][0]}"
    if setting["kind"] in ("choice", "text"):
        return ", ".join(words)
    least, most = setting.get("least"), find_maximum(setting, version)
    span = f"{'' if least is None else least}–{'' if most == math.inf else f'{most:.0f}'}"
    return ", ".join([*([span] if span != "–" else []), *words])


def describe_default(setting: Mapping[str, Any], version: str) -> str:
    """Return the default that a setting has in a version, as text; of an unknown version, each one
    that it ever had, and since when.
    """
    default, numbers = str(setting["default"]), version_ranges.parse_numbers(version)
    later: dict[str, str] = setting.get("default_since", {})
    if not numbers:
        return "; ".join([default, *(f"{text} since {first}" for first, text in later.items())])
    fitting = [t for first, t in later.items() if numbers >= version_ranges.parse_numbers(first)]
    return fitting[-1] if fitting else default


def find_maximum(setting: Mapping[str, Any], version: str) -> float:
    """Return the largest value of a setting that this version takes; infinite without a limit."""
    numbers = version_ranges.parse_numbers(version)
    for until, most in setting.get("most_until", {}).items():
        high = version_ranges.parse_numbers(until)
        if numbers and numbers[: len(high)] <= high:
            return float(most)
    return float(setting.get("most", math.inf))


def _parse_number(
    family: Mapping[str, Any], setting: Mapping[str, Any], value: str
) -> float | None:
    if setting["kind"] == "number":
        try:
            return float(value)
        except ValueError:
            return None
    if setting["kind"] == "size" and family.get("suffixes") and (size := _SIZE.fullmatch(value)):
        return int(size[1]) * _FACTORS[size[2].upper()]
    return _parse_integer(value)


def _parse_integer(text: str) -> int | None:
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    return int(text, 16) if re.fullmatch(r"0[xX][\da-fA-F]+", text) else None


def find_setting_not_taken(
    allocator: Allocator, settings: Collection[VariantSetting], dump: Mapping[str, str]
) -> str | None:
    """Return in words the first setting that the allocator's own dump shows with another value;
    None if there is none. A setting that the dump does not show counts as taken.
    """
    family = find_family(allocator)
    if family is None:
        return None
    for setting in settings:
        row = family["settings"].get(setting.name, {"kind": "text"})
        shown = dump.get(find_dumped_name(family, setting.name) or "")
        if shown is not None and not is_same_value(
            family, row, setting.value, row.get("shows", {}).get(shown, shown)
        ):
            return f"{setting.words} was not accepted: {allocator.name} reports {shown}"
    return None


def find_dumped_name(family: Mapping[str, Any], name: str) -> str | None:
    """Return what the allocator's dump calls a setting; None if it does not show it."""
    dumped = family["settings"].get(name, {}).get("dumped", True)
    if dumped is False or "dump" not in family:
        return None
    if isinstance(dumped, str):
        return dumped
    return name if "." in name else str(family["dump"].get("item", "{name}")).format(name=name)


def is_same_value(
    family: Mapping[str, Any], setting: Mapping[str, Any], value: str, shown: str
) -> bool:
    """Whether the dump shows the value that was set."""
    if value == shown:
        return True
    if setting["kind"] != "choice" and value in setting.get("values", []):
        return True  # "default": the allocator shows the value that it chose
    if (
        setting["kind"] in ("flag", "choice")
        and "flags" in family
        and (state := _parse_flag(family, value)) is not None
    ):
        return state == _parse_flag(family, shown)
    number, shown_number = _parse_number(family, setting, value), _parse_integer(shown)
    if number is None or shown_number is None:
        # Real numbers are not compared, an empty text says nothing; another word is another value.
        return setting["kind"] == "number" or (
            setting["kind"] == "text" and number is None and not shown
        )
    unit = family.get("dump", {}).get("size", 1) if setting["kind"] == "size" else 1
    return shown_number == math.ceil(number / unit)


def _parse_flag(family: Mapping[str, Any], value: str) -> bool | None:
    return next(
        (on for on, words in zip((True, False), family["flags"], strict=True) if value in words),
        None,
    )
