"""Expand sweeps: one variant of an experiment's table becomes one variant for each value of a
setting, and, with ``cpus``, each variant one for each number of CPUs. Also compute tunables that
are written as expressions over the CPUs. Pure.

A name in capitals is a variable of ``env``, one in lower case a setting of ``tunables``,
``server.NAME`` an option of the server. Several names give a variant for every combination.
"""

import ast
import itertools
import math
import operator
import re
from collections.abc import Callable
from typing import Any

from dballoc.experiment.cpu_list import parse_cpus
from dballoc.ground.errors import UsageError

Table = dict[str, Any]

KEY = "sweep"
CPUS = "cpus"
_SERVER = "server."
_MOST = 200
_LONGEST_NAME = 64
_UNFIT = re.compile(r"[^A-Za-z0-9._+=@-]+")
_EXPRESSION = re.compile(r"\bcores\b")
_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


def compute_tunables(table: Table, cores: int | None, origin: str) -> Table:
    """Return the table with each variant's tunables that are expressions over ``cores`` as numbers.

    ``cores``: as for :func:`expand_sweeps`. Raises UsageError that begins with ``origin`` for what
    is no expression.
    """
    variants = table.get("variant")
    if not isinstance(variants, list):
        return table
    return {**table, "variant": [_compute_tunables(v, table, cores, origin) for v in variants]}


def is_over_cores(value: Any) -> bool:
    """Whether a setting's value is written as an expression over ``cores``."""
    return isinstance(value, str) and _EXPRESSION.search(value) is not None


def _compute_tunables(variant: Any, table: Table, cores: int | None, origin: str) -> Any:
    tunables = variant.get("tunables") if isinstance(variant, dict) else None
    if not isinstance(tunables, dict) or not any(map(is_over_cores, tunables.values())):
        return variant
    where = f'{origin}: variant "{variant.get("name")}": tunables'
    count = _count_cores(table, variant, cores)
    computed = {
        name: _list_values(name, [value], count, where)[0] if is_over_cores(value) else value
        for name, value in tunables.items()
    }
    return {**variant, "tunables": computed}


def expand_cpus(table: Table, origin: str) -> Table:
    """Return the table with each variant once for each number of ``cpus``, the lowest first:
    ``glibc`` becomes ``glibc_4cpu`` and ``glibc_16cpu``, and so does the baseline, which is the one
    on the lowest number. With one number alone the variants keep their names. Raises UsageError
    that begins with ``origin`` for numbers that cannot be, or CPUs that are given twice.
    """
    if CPUS not in table:
        return table
    counts = _list_cpu_counts(table, origin)
    plain = {key: value for key, value in table.items() if key != CPUS}
    variants, cpu = table.get("variant"), table.get("cpu") or {}
    if not isinstance(variants, list) or not all(isinstance(v, dict) for v in variants):
        return plain  # the model says what is wrong with them
    for variant in variants:
        if variant.get("cpu"):
            raise UsageError(
                f'{origin}: variant "{variant.get("name")}": cpu: every variant has the numbers of '
                "cpus; leave out one of the two"
            )
    if len(counts) == 1:
        return plain | {"cpu": cpu | {"count": counts[0]}}
    if (number := len(counts) * len(variants)) > _MOST:
        raise UsageError(
            f"{origin}: {CPUS}: {number} variants; give fewer numbers, {_MOST} variants at most"
        )
    baseline = table.get("baseline")
    if baseline in [variant.get("name") for variant in variants]:
        plain["baseline"] = _name_on_cpus(baseline, counts[0])
    plain["variant"] = [
        variant | {"name": _name_on_cpus(variant.get("name"), n), "cpu": cpu | {"count": n}}
        for n in counts
        for variant in variants
    ]
    return plain


def _list_cpu_counts(table: Table, origin: str) -> list[int]:
    """Return the numbers of ``cpus``, the lowest first."""
    counts, cpu = table[CPUS], table.get("cpu") or {}
    if (
        not isinstance(counts, list)
        or not counts
        or not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in counts)
    ):
        raise UsageError(f"{origin}: {CPUS}: give numbers of CPUs, like [4, 16]")
    if len(set(counts)) < len(counts):
        raise UsageError(f"{origin}: {CPUS}: the same number twice")
    if not isinstance(cpu, dict) or cpu not in ({}, {"client": "apart"}):
        raise UsageError(
            f"{origin}: {CPUS}: give either {CPUS} or cpu.count, cpu.server and a list of "
            "cpu.client, not both"
        )
    return sorted(counts)


def _name_on_cpus(name: Any, count: int) -> str:
    return f"{name}_{count}cpu"


def expand_sweeps(table: Table, cores: int | None, origin: str) -> Table:
    """Return the table with ``cpus`` and every ``sweep`` expanded into variants. A swept variant
    that is the baseline, on any number of CPUs, stays beside them.

    ``cores``: the CPUs of this machine, for where ``[cpu]`` does not say how many the server has;
    None where an expression over them has no meaning. Raises UsageError that begins with ``origin``
    for an invalid sweep.
    """
    baselines = {table.get("baseline")}
    if CPUS in table:
        baselines |= {
            _name_on_cpus(table.get("baseline"), n) for n in _list_cpu_counts(table, origin)
        }
    table = expand_cpus(table, origin)
    variants = table.get("variant")
    if not isinstance(variants, list) or not any(
        isinstance(v, dict) and KEY in v for v in variants
    ):
        return table
    expanded: list[Any] = []
    for variant in variants:
        if not isinstance(variant, dict) or KEY not in variant:
            expanded.append(variant)
            continue
        plain = {k: v for k, v in variant.items() if k != KEY}
        if plain.get("name") in baselines:
            expanded.append(plain)
        where = f'{origin}: variant "{plain.get("name")}": sweep'
        expanded += _expand_variant(plain, variant[KEY], _count_cores(table, plain, cores), where)
    return {**table, "variant": expanded}


def _count_cores(table: Table, variant: Table, cores: int | None) -> int | None:
    """Return how many CPUs the server of this variant has."""
    cpu = variant.get("cpu") or table.get("cpu") or {}
    if not isinstance(cpu, dict):
        return cores
    if isinstance(cpu.get("count"), int):
        return int(cpu["count"])
    try:
        return len(parse_cpus(cpu["server"])) if cpu.get("server") else cores
    except (TypeError, ValueError):
        return cores  # the model says what is wrong with it


def _expand_variant(variant: Table, sweep: Any, cores: int | None, where: str) -> list[Table]:
    settings = _flatten_settings(sweep, where)
    axes = [
        [(name, value) for value in _list_values(name, texts, cores, where)]
        for name, texts in settings.items()
    ]
    number = 1
    for axis in axes:
        number *= len(axis)
    if number > _MOST:
        raise UsageError(f"{where}: {number} variants; give fewer values, {_MOST} variants at most")
    combinations = list(itertools.product(*axes))
    names = _name_variants(str(variant.get("name", "")), combinations)
    return [
        _apply_settings(variant, dict(chosen), name)
        for chosen, name in zip(combinations, names, strict=True)
    ]


def _flatten_settings(sweep: Any, where: str) -> dict[str, list[Any]]:
    """Return names with their values; ``server.NAME = […]`` is a table in TOML."""
    if not isinstance(sweep, dict) or not sweep:
        raise UsageError(f'{where}: write it like {{ MALLOC_ARENA_MAX = ["1", "cores"] }}')
    settings: dict[str, Any] = {}
    for name, values in sweep.items():
        inner = values.items() if isinstance(values, dict) and name == "server" else [("", values)]
        settings |= {f"{_SERVER}{key}" if key else name: value for key, value in inner}
    for name, values in settings.items():
        if not isinstance(values, list) or not values:
            raise UsageError(f'{where}: {name}: give a list of values, like ["1", "cores"]')
    return settings


def _list_values(name: str, values: list[Any], cores: int | None, where: str) -> list[str]:
    """Return each value once, as text, in the order of the list."""
    texts = []
    for value in values:
        if not isinstance(value, str | int | float):
            raise UsageError(f"{where}: {name}: {value!r} is neither a text nor a number")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if is_over_cores(text):
            if cores is None:
                raise UsageError(
                    f"{where}: {name}: the number of cores is not known here; write numbers instead"
                )
            try:
                text = str(evaluate_expression(text, cores))
            except ValueError as error:
                raise UsageError(f"{where}: {name}: {error}") from None
        texts.append(text)
    return list(dict.fromkeys(texts))


def evaluate_expression(expression: str, cores: int) -> int:
    """Evaluate an expression of numbers, ``cores``, ``+ - * /`` and brackets to the nearest whole
    number, at least 1.

    Raises ValueError for anything else.
    """
    wrong = f'{expression!r} is not an expression over cores; write it like "cores/6" or "2*cores"'

    def evaluate(node: ast.AST) -> float:
        match node:
            case ast.Expression(body=body):
                return evaluate(body)
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return number
            case ast.Name(id="cores"):
                return cores
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](evaluate(left), evaluate(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -evaluate(operand)
        raise ValueError(wrong)

    try:
        exact = evaluate(ast.parse(expression.strip(), mode="eval"))
    except (SyntaxError, RecursionError, MemoryError, OverflowError):
        raise ValueError(wrong) from None
    except ZeroDivisionError:
        raise ValueError(f"{expression!r} divides by zero") from None
    if not math.isfinite(exact):
        raise ValueError(wrong)
    # Round half up, as people expect.
    return max(1, math.floor(exact + 0.5))


def _name_variants(name: str, combinations: list[tuple[tuple[str, str], ...]]) -> list[str]:
    """Return a name for each combination: with the settings' names and values, with the values
    alone where those are too long, else with numbers.
    """

    def join_words(words: list[str]) -> str:
        return "-".join([name, *(_UNFIT.sub("_", word) for word in words)])

    forms = [
        [
            join_words([f"{key.removeprefix(_SERVER)}={value}" for key, value in chosen])
            for chosen in combinations
        ],
        [join_words([value for _, value in chosen]) for chosen in combinations],
    ]
    for form in forms:
        if len(set(form)) == len(form) and max(map(len, form)) <= _LONGEST_NAME:
            return form
    return [f"{name}-{number}" for number in range(1, len(combinations) + 1)]


def _apply_settings(variant: Table, chosen: dict[str, str], name: str) -> Table:
    result = {**variant, "name": name}
    for key, value in chosen.items():
        if key.startswith(_SERVER):
            _set_value(result, ("server", "options"), key.removeprefix(_SERVER), value)
        else:
            _set_value(result, ("env" if key.isupper() else "tunables",), key, value)
    return result


def _set_value(table: Table, places: tuple[str, ...], key: str, value: str) -> None:
    """Set ``table.a.b.key = value`` in copies of the tables on the way. Where one of them is not a
    table, it is left for the model to refuse.
    """
    for place in places:
        inner = table.get(place, {})
        if not isinstance(inner, dict):
            return
        table[place] = dict(inner)
        table = table[place]
    table[key] = value
