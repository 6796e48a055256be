"""Choose which of another server's options a private server takes over: those that the catalogue
lists, with values that name no file and no host. Pure, except that it checks which plugins are
installed.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import get_args

from dballoc.catalogue import foreign_options
from dballoc.experiment.flag import Engine
from dballoc.experiment.secret_names import hide_secrets, is_sensitive
from dballoc.servers.private.reserved_options import EMPTY, bare, is_name, is_reserved, normal

_ENGINE = ("default-storage-engine", "storage-engine")
_PLUGINS = ("plugin-load", "plugin-load-add", "early-plugin-load")
_A_PATH = re.compile(r"(/|~/|\.\.?/).*", re.DOTALL)
_PATHS, _PRIVATE, _PLUGIN = "paths", "network and identity", "plugins"
_OTHER_ENGINE = "no data can be made in this engine; give --engine for another than the default"
_SECRET, _NO_NAME = "secrets", "names that no option has"
_OTHERS = "not known to matter for memory or speed"
_VALUES = "values that could name a file or a host"
_PLUGIN_NAME = re.compile(r"\w{1,80}", re.ASCII)
# What a value may be, by the lists of [take] in the catalogue; without the quotes around it.
_NUMBER = r"|[+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:[kmgtpe]b?)?|on|off|true|false|yes|no"
_WORD = r"[a-z][a-z0-9_-]{0,79}"
_FORMS = {
    kind: re.compile(form, re.ASCII | re.IGNORECASE)
    for kind, form in {
        "numbers": _NUMBER,
        "words": rf"{_NUMBER}|(?:{_WORD}(?:=(?:{_WORD}|[0-9]{{1,20}}))?,?){{1,60}}",
        "instruments": r"[\w%][\w%/]{0,200}=(?:on|off|true|false|yes|no|counted|timed|[01])",
        "column_families": r"\w+=[\w=;:{}. ,-]{0,2000}",
    }.items()
}
# Only names of this form are shown: another's text may be anything.
_SHOWN = re.compile(r"[\w.=+-]{1,80}", re.ASCII)


@dataclass(frozen=True)
class Taken:
    """The options for ``[server]``, and by group the names of those that were left out, never their
    values, but for an engine's name.
    """

    options: dict[str, str]
    init_options: dict[str, str]
    engine: str | None
    left_out: dict[str, list[str]]

    def notes(self) -> list[str]:
        """Return a line for each group that was left out."""
        return [
            f"left out ({group}): {', '.join(dict.fromkeys(names))}"
            for group, names in self.left_out.items()
        ]


def parse(arguments: Iterable[str]) -> list[tuple[str, str]]:
    """Parse ``--name=value`` words into (name, value). A switch has an empty value, an empty value
    is ``''`` as in a my.cnf.
    """
    options: list[tuple[str, str]] = []
    for argument in arguments:
        if argument.startswith("--") and len(argument) > 2:
            name, equals, value = argument[2:].partition("=")
            options.append((name, value or (EMPTY[0] if equals else "")))
        elif not argument.startswith("-") and options and options[-1][1] == "":
            options[-1] = (options[-1][0], argument)  # --name value
    return options


def take(foreign: Iterable[tuple[str, str]], plugins: Path | None) -> Taken:
    """Sort options into what is taken and what isn't. ``plugins``: the build's directory of
    plugins.

    Of an option given twice the last counts, as servers have it; lists of plugins add up.
    """
    rules = foreign_options()
    options: dict[str, str] = {}
    init: dict[str, str] = {}
    omitted: dict[str, list[str]] = {}
    libraries: list[str] = []
    engine = None
    for raw, value in foreign:
        name, inner = normal(raw), bare(raw)
        if not is_name(raw):
            omitted.setdefault(_NO_NAME, []).append(_shown(name))
        elif is_sensitive(name) or hide_secrets(value) != value:
            omitted.setdefault(_SECRET, []).append(_shown(name))
        elif inner in _ENGINE:
            if value.lower() in get_args(Engine):
                engine = value.lower()
            else:
                omitted.setdefault(_OTHER_ENGINE, []).append(f"{_shown(name)} = {_shown(value)}")
        elif inner in _PLUGINS:
            for entry in filter(None, value.split(";")):
                if _wanted_plugin(entry, plugins, rules["plugins"]["take"]):
                    libraries.append(entry)
                else:
                    omitted.setdefault(_PLUGIN, []).append(
                        entry if _SHOWN.fullmatch(entry) else "…"
                    )
        elif (group := _left_out(inner, value, rules)) is not None:
            omitted.setdefault(group, []).append(_shown(name))
        elif not (kinds := _list_kinds(inner, rules["take"])):
            omitted.setdefault(_OTHERS, []).append(_shown(name))
        elif not any(_FORMS[kind].fullmatch(_strip_quotes(value)) for kind in kinds):
            omitted.setdefault(_VALUES, []).append(_shown(name))
        else:
            place = init if _matches(inner, rules["init"]["options"]) else options
            place[name.replace("-", "_")] = value
    if libraries:
        options["plugin_load_add"] = ";".join(dict.fromkeys(libraries))
    return Taken(options, init, engine, omitted)


def _shown(name: str) -> str:
    return name.replace("-", "_") if _SHOWN.fullmatch(name) else "…"


def _left_out(name: str, value: str, rules: dict) -> str | None:
    # As servers call the switch of a plugin whose name is another option's.
    names = {name, re.sub("^(plugin-)+", "", name)}
    for group in rules["leave"]:
        if any(
            _matches(each, group["options"]) and not _matches(each, group.get("keep", []))
            for each in names
        ):
            return str(group["what"])
    if any(map(is_reserved, names)):
        return _PRIVATE
    return _PATHS if _A_PATH.fullmatch(_strip_quotes(value)) else None


def _list_kinds(name: str, rules: dict[str, list[str]]) -> list[str]:
    """Return the kinds of value that an option is taken over with; none for one that is not."""
    return [kind for kind, patterns in rules.items() if _matches(name, patterns)]


def _strip_quotes(value: str) -> str:
    return value.strip("'\"")


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _wanted_plugin(entry: str, plugins: Path | None, wanted: list[str]) -> bool:
    """Parse ``name=file`` or ``file``, with or without ``.so``."""
    name, _, file = entry.rpartition("=")
    file = file.removesuffix(".so")
    if plugins is None or not _PLUGIN_NAME.fullmatch(f"{name}{file}") or not _matches(file, wanted):
        return False
    return (plugins / f"{file}.so").exists()


def with_own_word(options: list[tuple[str, str]], word: dict[str, str]) -> list[tuple[str, str]]:
    """Return the options that a server was started with, corrected by its own variables. A value
    stays as it was written if it means the same.
    """
    written: dict[str, str] = {}
    for raw, value in options:
        written[normal(raw).removeprefix("loose-").replace("-", "_")] = value
    changed = []
    for name, value in word.items():
        if name not in written or not _means(written[name], value or EMPTY[0]):
            changed.append((name, value or EMPTY[0]))
    return [*options, *changed]


def _means(written: str, value: str) -> bool:
    return _plain(written) == _plain(value)


def _plain(value: str) -> str:
    """Return one spelling for switches, sizes and empty values."""
    text = value.strip("'\"").lower()
    if value == "" or text in ("on", "true", "yes"):
        return "1"
    if text in ("off", "false", "no"):
        return "0"
    if size := re.fullmatch(r"([0-9]{1,20})([kmgtpe])", text):
        return str(int(size[1]) << 10 * ("kmgtpe".index(size[2]) + 1))
    return text
