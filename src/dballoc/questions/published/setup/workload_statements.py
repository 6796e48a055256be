"""What the transactions of workloads hold, by their scripts' options. Pure.

Source of the defaults: sysbench 1.0, ``oltp_common.lua``; the scripts ``oltp_*.lua`` say which
statements each one makes. Our own scripts have them as words (``load/lua/dballoc_words.lua``).
"""

import re
from collections.abc import Iterable, Mapping

from dballoc.ground.numbers import count
from dballoc.questions.published.setup.setting_values import normalize_value

# Statements of a transaction, and what oltp_common.lua has where nothing is given.
DEFAULTS = {
    "point_selects": "10",
    "simple_ranges": "1",
    "sum_ranges": "1",
    "order_ranges": "1",
    "distinct_ranges": "1",
    "range_size": "100",
    "index_updates": "1",
    "non_index_updates": "1",
    "delete_inserts": "1",
    "range_selects": "on",
    "skip_trx": "off",
}
_RANGES = {
    "simple_ranges": "simple range",
    "sum_ranges": "sum range",
    "order_ranges": "order range",
    "distinct_ranges": "distinct range",
}
_READS = ("oltp_read_only", "oltp_read_write")
_WRITES = ("oltp_read_write", "oltp_write_only")
_SINGLE = {
    "oltp_point_select": "point select",
    "oltp_update_index": "index update",
    "oltp_update_non_index": "non-index update",
    "oltp_insert": "insert",
    "oltp_delete": "delete",
}
# What words of our own scripts (load/lua/dballoc_words.lua) stand for; any other stands for itself.
_WORDS = {
    "point": ("point select",),
    "simple": ("simple range of {range}",),
    "sum": ("sum range of {range}",),
    "order": ("order range of {range}",),
    "distinct": ("distinct range of {range}",),
    "update-index": ("index update",),
    "update-nonindex": ("non-index update",),
    "replace": ("delete", "insert"),
    "count": ("count of c in a range of {range}",),
    "random-points": ("select of c by {range} random ids",),
    "hot-points": ("select of c by {range} ids that are always the same",),
    "points-covered-pk": ("select of id by {range} random ids",),
    "points-notcovered-pk": ("select of id and c by {range} random ids",),
    "points-covered-si": ("select of k by {range} random values of k",),
    "points-notcovered-si": ("select of k and c by {range} random values of k",),
    "range-covered-pk": ("select of id from a random id to {range} above it",),
    "range-notcovered-pk": ("select of id and c from a random id to {range} above it",),
    "range-covered-si": ("select of k from a random k to {range} above it",),
    "range-notcovered-si": ("select of k and c from a random k to {range} above it",),
    "scan": ("scan of a whole table",),
    "update-inlist": ("update of c by 10 random ids",),
    "begin": (),
    "commit": (),
}
_IDS = {
    "one": "always of the first row",
    "zipfian": "ids by Zipf's law with exponent 0.8",
}


def list_statements(script: str, options: Mapping[str, str]) -> list[str]:
    """Return what an event of a script holds, ``12 point selects``, ``1 simple range of 90``, …,
    with the script's ``options`` by their names with ``_``. Nothing for a script that is neither
    one of sysbench's nor one of ours that takes ``statements``.
    """
    if "statements" in options:
        ids = _IDS.get(options.get("ids", ""))
        words = _list_words(options["statements"], options.get("range", ""))
        return [*words, *([ids] if ids else [])]
    if script in _SINGLE:
        return [f"1 {_SINGLE[script]}"]
    chosen = DEFAULTS | dict(options)
    items: list[str] = []
    if script in _READS:
        items.append(_count(chosen["point_selects"], "point select"))
        if normalize_value(chosen["range_selects"]) == "1":
            items += [
                _count(chosen[key], kind, f" of {chosen['range_size']}")
                for key, kind in _RANGES.items()
            ]
    if script in _WRITES:
        items += [
            _count(chosen["index_updates"], "index update"),
            _count(chosen["non_index_updates"], "non-index update"),
            _count(chosen["delete_inserts"], "delete"),
            _count(chosen["delete_inserts"], "insert"),
        ]
    if items and normalize_value(chosen["skip_trx"]) == "1":
        items.append("no transaction")
    return [item for item in items if not item.startswith("0 ")]


def _list_words(text: str, size: str) -> list[str]:
    """Return the statements of ``begin, 12 point, sum, commit``, ranges of ``size`` rows."""
    items = []
    for part in text.split(","):
        number, _, word = part.strip().rpartition(" ")
        for kind in _WORDS.get(word, (word,)):
            name, of, rows = kind.replace("{range}", size).partition(" of ")
            items.append(_count(number or "1", name, of + rows))
    return items


def _count(number: str, kind: str, size: str = "") -> str:
    return f"{number} {kind}{'' if number == '1' else 's'}{size}"


def normalize_statements(text: str) -> frozenset[str]:
    """Return the items of a list of statements: order, capitals, plurals and ``1`` do not count."""
    return frozenset(
        re.sub(r"^1 ", "", re.sub(r"(?<=\w\w)s\b", "", " ".join(item.lower().split())))
        for item in text.split(",")
        if item.strip()
    )


_SELECTS = ("point select", *_RANGES.values())
_KINDS = frozenset((*_SELECTS, "index update", "non-index update", "delete", "insert"))


def is_list_of_statements(text: str) -> bool:
    """Whether a text says what a transaction holds as :func:`list_statements` does."""
    return {_find_kind(item) for item in normalize_statements(text)} <= _KINDS


def summarize_selects(items: Iterable[str]) -> str:
    """Return how many selects of how many kinds there are: ``14 selects of 5 kinds``; empty where
    there are none.
    """
    numbers: dict[str, int] = {}
    for item in items:
        for statement in normalize_statements(item):
            if (kind := _find_kind(statement)) in _SELECTS:
                number = re.match(r"[0-9]{1,9}(?= )", statement)
                numbers[kind] = numbers.get(kind, 0) + int(number[0] if number else 1)
    if not numbers:
        return ""
    selects = count(sum(numbers.values()), "select")
    return f"{selects} of {count(len(numbers), 'kind')}"


def _find_kind(statement: str) -> str:
    return re.sub(r"^[0-9]+ | of [0-9]+$", "", statement)
