"""Check the values in the tables' cells, by their column's declaration, and for some columns by
name. Pure.
"""

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dballoc.ground import readers
from dballoc.store.facts import LATEST
from dballoc.store.rows import StoredColumn

# Below trials/: a plain name, or a few.
_DIRECTORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=@-]*")
# Bytes and counts; so far below 2^63 that the sum of a table's rows is below it too.
_LARGEST = 2**53
# Bounds within which quotients and logarithms stay finite.
_MOST, _LEAST = 1e15, 1e-15
_TIMES = frozenset({"started", "ended"})
# Texts of several lines: what a server or a client said last. What shows them, quotes them.
_OF_LINES = frozenset({"fault_text", "log_tail"})
# Versions of TLS, as servers name them.
_TLS = re.compile(r"[A-Za-z0-9.,]{0,100}")

# The forms of cells that are JSON.
LIBRARIES, ENVIRONMENT, COMMAND = (
    TypeAdapter(list[str]),
    TypeAdapter(dict[str, str]),
    TypeAdapter(list[str]),
)
PROOF = TypeAdapter(Any)


def check_values(values: Iterable[Any], column: StoredColumn) -> None:
    """Check that the values of a column are of its kind. Raises Unfit, in a text that begins with
    the column's name, for the first that is not.
    """
    name = column.name
    for value in values:
        if value is None:
            continue  # SQLite's integrity check has checked NOT NULL
        match column.kind:
            case "TEXT":
                if not isinstance(value, str):
                    raise _make_error(name, value)
                # Else a line of it could be one of a report, of a table or of a unit file.
                if not value.isprintable() and name not in _OF_LINES:
                    raise _make_error(name, value)
            case _:
                if not isinstance(value, int | float) or not _is_in_range(value, column.kind):
                    raise _make_error(name, value)
                if name in _TIMES and not 0 <= value <= LATEST:
                    raise _make_error(name, value)
        if column.choices and value not in column.choices:
            raise _make_error(name, value)
        if name == "tls" and not _TLS.fullmatch(value):
            raise _make_error(name, value)
        if name == "directory" and not _DIRECTORY.fullmatch(value):
            raise _make_error(name, value)


def check_json(text: str, form: TypeAdapter[Any], place: str) -> str:
    """Return the JSON of a cell, parsed and dumped again. Raises Unfit, which begins with
    ``place``, if it is not JSON, not of that form, or has a text that is not one printable line.
    """
    try:
        document = readers.document(text, finite=False)
        form.validate_python(document)
        _refuse_unprintable(document)
    except readers.Unfit as error:
        raise readers.Unfit(f"{place}: {error}") from None
    except ValidationError as error:
        raise readers.Unfit(f"{place}: {readers.first_complaint(error)}") from None
    return json.dumps(document)


def _refuse_unprintable(document: Any) -> None:
    """Raise Unfit for a text that is not one printable line."""
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        place, value = waiting.pop()
        match value:
            case str() if not value.isprintable():
                raise readers.Unfit(f"{place[:80]}: {readers.shown(value)} cannot be printed")
            case list():
                waiting += [(place, item) for item in value]
            case dict():
                waiting += [(place, key) for key in value]
                waiting += [(f"{place}.{key[:40]}".lstrip("."), value[key]) for key in value]


def _is_in_range(value: float, kind: str) -> bool:
    if not math.isfinite(value):
        return False
    size = abs(value)
    return size <= _LARGEST if kind == "INTEGER" else size == 0 or _LEAST <= size <= _MOST


def _make_error(column: str, value: Any) -> readers.Unfit:
    return readers.Unfit(f"{column}: {readers.shown(str(value))} is not valid")
