"""Read and write the experiment file: TOML. Errors are one line with file, key and remedy."""

import difflib
import hashlib
import json
import re
from pathlib import Path
from typing import Any, get_args

import tomli_w
from pydantic import BaseModel, ValidationError

from dballoc.experiment import sweep
from dballoc.experiment.durations_and_sizes import parse_duration
from dballoc.experiment.model import (
    Experiment,
    Time,
    Variant,
)
from dballoc.ground import readers
from dballoc.ground.errors import UsageError


def load_experiment(path: Path) -> Experiment:
    """Read the experiment in a file. UsageError if it cannot be read, is not TOML, or is not a
    valid experiment.
    """
    return build_experiment(read_table(path), str(path))


def read_table(path: Path) -> dict[str, Any]:
    """Read the raw table of an experiment file, so that flags can be laid over it. UsageError if
    the file cannot be read or is not TOML.
    """
    try:
        text = readers.text(path)
    except readers.Unfit as error:
        raise UsageError(
            f"{path}: cannot read the experiment file: "
            f"{str(error).removeprefix('cannot be read: ')}"
        ) from None
    return parse_table(text, str(path))


def parse_table(text: str, origin: str) -> dict[str, Any]:
    """Parse the text of an experiment into its raw table. UsageError that begins with ``origin`` if
    it is not TOML.
    """
    with readers.naming(origin):
        return readers.table(text)


LONGER, FROM = "longer", "from"
# Keys that say which experiment it is, and how long it takes.
_NOT_LONGER = (LONGER, "name", "baseline", "budget", "published", "post", "small", "scaled")


def lay_longer(table: dict[str, Any], budget: Any, origin: str) -> dict[str, Any]:
    """Return the table without ``[longer]``, and with its keys laid over where the ``budget`` (as
    text, None without one) is at least its ``from``: its variants come beside the others, tables
    key by key, all else in place of what the file has. UsageError, one line that begins with
    ``origin``, for a ``[longer]`` that could never, or would always, apply.
    """
    if LONGER not in table:
        return table
    plain = {key: value for key, value in table.items() if key != LONGER}
    longer, where = table[LONGER], f"{origin}: {LONGER}"
    if not isinstance(longer, dict) or not isinstance(longer.get(FROM), str) or len(longer) < 2:
        raise UsageError(f'{where}: give {FROM} = "2h", and the keys that a longer budget changes')
    for key in longer:
        if key in _NOT_LONGER or key not in {FROM, sweep.CPUS, *Experiment.model_fields}:
            raise UsageError(f"{where}.{key}: this is no key that a longer budget can change")
    least = _parse_time(longer[FROM], f"{where}.{FROM}")
    if (written := table.get("budget")) is not None:
        shortest = _parse_time(written, f"{origin}: budget")
        if least <= shortest:
            raise UsageError(
                f"{where}.{FROM}: {longer[FROM]} is no longer than the file's own budget, {written}"
            )
    if budget is None or _parse_time(budget, f"{origin}: budget") < least:
        return plain
    for key, value in longer.items():
        if key != FROM:
            plain[key] = _lay_over(plain.get(key), value)
    return plain


def _lay_over(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **above}
    if (
        isinstance(below, list)
        and isinstance(above, list)
        and all(isinstance(item, dict) for item in [*below, *above])
    ):
        return [*below, *above]
    return above


def _parse_time(text: Any, where: str) -> float:
    try:
        return parse_duration(text)
    except (TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{where}: {error}") from None


def build_experiment(table: dict[str, Any], origin: str, cores: int | None = None) -> Experiment:
    """Build the experiment that a table describes, with its sweeps made into variants. ``cores``:
    see :func:`dballoc.experiment.sweep.expand_sweeps`. UsageError, one line that begins with
    ``origin``, if the table does not describe an experiment.
    """
    with readers.naming(origin):
        readers.sensible(table)  # flags have been laid over it, whose words are anything
    table = lay_longer(table, table.get("budget"), origin)
    table = sweep.compute_tunables(sweep.expand_sweeps(table, cores, origin), cores, origin)
    try:
        return Experiment.model_validate(table)
    except ValidationError as error:
        raise UsageError(f"{origin}: {_format_validation_error(error, table)}") from None


def format_experiment(experiment: Experiment) -> str:
    """Return the file's text: what differs from the defaults, and the sections that every reader
    looks for.
    """
    table = experiment.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
    for section in ("server", "data", "time"):
        table[section] = getattr(experiment, section).model_dump(mode="json", exclude_none=True)
        table[section] = {k: v for k, v in table[section].items() if v not in ({}, [])}
    if experiment.time.settle == Time().settle:
        del table["time"]["settle"]
    scalars = {k: v for k, v in table.items() if not isinstance(v, dict) and k != "variant"}
    tables = {k: v for k, v in table.items() if isinstance(v, dict)}
    variants = [_format_array_item("variant", entry) for entry in table["variant"]]
    return "\n".join([tomli_w.dumps(scalars | tables), *variants])


def _format_array_item(name: str, entry: dict[str, Any]) -> str:
    """Return ``[[name]]`` and its sub-tables, the form that people write (tomli_w puts short ones
    in one line).
    """
    return f"[[{name}]]\n" + re.sub(r"^\[", f"[{name}.", tomli_w.dumps(entry), flags=re.MULTILINE)


# What decides nothing of a campaign's figures: what a post states, what the experiment was before
# it was made smaller, where a trace lies, and how long a replay may take that came to its end.
_WITHOUT_EFFECT: dict[str, Any] = {
    "post": True,
    "scaled": {"full": True},
    "replay": {"trace": True, "max_time": True},
    "fit": {"guess": {"trace": True}},
    "tune": {"trace": {"trace": True, "max_time": True}},
}


def compute_identity(experiment: Experiment) -> str:
    """Return a short hash; two experiments with the same one may share a results directory."""
    table = experiment.model_dump(mode="json", exclude=_WITHOUT_EFFECT)
    text = json.dumps(table, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _format_validation_error(error: ValidationError, table: dict[str, Any]) -> str:
    first = error.errors()[0]
    key = _format_key(first["loc"], table)
    match first["type"]:
        case "extra_forbidden":
            near = difflib.get_close_matches(
                str(first["loc"][-1]), _list_known_keys(first["loc"][:-1]), 1
            )
            hint = (
                f'; did you mean "{near[0]}"?'
                if near
                else f"; known here: {', '.join(_list_known_keys(first['loc'][:-1]))}"
            )
            whose, _, bare = key.rpartition(": ")
            return f"{whose + ': ' if whose else ''}unknown key {bare}{hint}"
        case "missing":
            return f"{key} is missing"
        case "value_error":
            return f"{key}: {first['ctx']['error']}" if key else str(first["ctx"]["error"])
        case "literal_error":
            value = _shorten_value(first["input"])
            return f"{key}: {value} is not known; use {first['ctx']['expected']}"
        case _:
            return f"{key}: {first['msg'].lower()}, not {_shorten_value(first['input'])}"


def _shorten_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _format_key(loc: tuple[int | str, ...], table: Any) -> str:
    """Return the key as the file has it, with a variant's name where it has one: ``variant
    "jemalloc": thp`` instead of ``variant[1].thp``.
    """
    if loc[:1] == ("variant",) and len(loc) > 1 and isinstance(loc[1], int):
        entry = table["variant"][loc[1]]
        name = entry.get("name") if isinstance(entry, dict) else None
        return " ".join(
            filter(
                None,
                [f'variant "{name}":' if name else f"variant {loc[1] + 1}:", _join_key(loc[2:])],
            )
        )
    return _join_key(loc)


def _join_key(loc: tuple[int | str, ...]) -> str:
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc).lstrip(".")


def _list_known_keys(loc: tuple[int | str, ...]) -> list[str]:
    model: type[BaseModel] = Experiment
    for part in loc:
        if isinstance(part, int) or part not in model.model_fields:
            continue  # a number of a list, a name in a table of tables
        inner = model.model_fields[part].annotation
        candidates = [inner, *get_args(inner)]
        model = next(c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel))
    of_file = {Variant: [sweep.KEY], Experiment: [sweep.CPUS, LONGER]}
    return sorted([*model.model_fields, *of_file.get(model, [])])
