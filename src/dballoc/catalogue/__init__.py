"""Data, not code: allocators, servers, their sources, workloads, experiments. Adding one is adding
to a TOML file here.
"""

import difflib
import tomllib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from dballoc.ground.errors import UsageError

Entries = dict[str, dict[str, Any]]


@cache
def _read(kind: str) -> Entries:
    return tomllib.loads((files(__name__) / f"{kind}.toml").read_text(encoding="utf-8"))


def allocators() -> Entries:
    """Allocators by name; the keys are explained at the top of allocators.toml."""
    return _read("allocators")


def tunables() -> Entries:
    """The settings of allocators by family; see tunables.toml."""
    return _read("tunables")


@cache
def servers() -> Entries:
    """Server families by name, each with what it inherits; see servers.toml."""
    return {name: _inherit(_read("servers"), name) for name in _read("servers")}


def _inherit(rows: Entries, name: str) -> dict[str, Any]:
    """Return a row laid over the one that it inherits from; a table is laid over it key by key."""
    row = rows[name]
    if "inherits" not in row:
        return row
    parent = _inherit(rows, row["inherits"])
    tables = {k: parent[k] | v for k, v in row.items() if isinstance(v, dict) and k in parent}
    return parent | row | tables


def workloads() -> Entries:
    """Workloads by name; see workloads.toml."""
    return _read("workloads")


def sources() -> dict[str, Entries]:
    """What can be fetched, by name and version; see sources.toml."""
    return _read("sources")


def cycles() -> Entries:
    """Names that stand for several workloads; see cycles.toml."""
    return _read("cycles")


def settling() -> Entries:
    """What an engine does while its server settles; see settling.toml."""
    return _read("settling")


def mapped_files() -> Entries:
    """What large files are that servers map, by patterns of their names; see mapped_files.toml."""
    return _read("mapped_files")


def foreign_options() -> dict[str, Any]:
    """What of another server's options is left out or moved; see options.toml."""
    return _read("options")


def measures() -> dict[str, Entries]:
    """What campaigns measure, by name, and the groups of measures; see measures.toml."""
    return _read("measures")


def bounds() -> dict[str, Any]:
    """Which settings bound a server's memory; see bounds.toml."""
    return _read("bounds")


def wrappers() -> list[str]:
    """Functions that only hand an allocation on, as patterns; see wrappers.toml."""
    functions: list[str] = _read("wrappers")["functions"]  # type: ignore[assignment]
    return functions


def counted() -> list[str]:
    """Functions by which performance_schema's instruments count memory, as patterns; see
    wrappers.toml.
    """
    functions: list[str] = _read("wrappers")["counted"]  # type: ignore[assignment]
    return functions


def waits() -> dict[str, Any]:
    """How a wait is told from its call stack; see waits.toml."""
    return _read("waits")


def verdicts() -> dict[str, Any]:
    """When :command:`dballoc explain` says what; see verdicts.toml."""
    return _read("verdicts")


def suspects() -> dict[str, Any]:
    """What may have memory that no owner claims; see suspects.toml."""
    return _read("suspects")


def causes() -> dict[str, Entries]:
    """What owners have their memory for, and what bounds it; see causes.toml."""
    return _read("causes")


def procedure() -> dict[str, Any]:
    """Which variables and counters of a server are shown; see procedure.toml."""
    return _read("procedure")


def instruments() -> Entries:
    """Whose memory the memory instruments count, by owner; see
    performance_schema_instruments.toml.
    """
    return _read("performance_schema_instruments")


def experiments() -> dict[str, str]:
    """The text of each shipped experiment file, by name."""
    folder = files(__name__) / "experiments"
    entries = {
        e.name.removesuffix(".toml"): e for e in folder.iterdir() if e.name.endswith(".toml")
    }
    return {name: entries[name].read_text(encoding="utf-8") for name in sorted(entries)}


def published() -> dict[str, tuple[str, str]]:
    """Published figures by name: what they are of (TOML) and the figures (CSV); see
    :mod:`dballoc.questions.published.post_figures`.
    """
    folder = files(__name__) / "published"
    names = sorted(
        e.name.removesuffix(".toml") for e in folder.iterdir() if e.name.endswith(".toml")
    )
    return {n: (_text(folder, f"{n}.toml"), _text(folder, f"{n}.csv")) for n in names}


def _text(folder: Traversable, name: str) -> str:
    return (folder / name).read_text(encoding="utf-8")


def look_up(entries: dict[str, Any], name: str, kind: str) -> Any:
    """``entries[name]``; UsageError that says what there is, if it isn't there."""
    if name in entries:
        return entries[name]
    near = difflib.get_close_matches(name, entries, 1)
    raise UsageError(
        f"no {kind} {name!r}; "
        + (f"did you mean {near[0]!r}?" if near else f"there are {', '.join(entries)}")
    )
