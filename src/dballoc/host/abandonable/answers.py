"""What a child answers, as bytes: pickled, and read by a reader that makes nothing but plain
values, our own dataclasses, enumerations and errors.

The child has the same rights as its parent, and what a hostile target can put into an answer are
texts and numbers. So the restriction is a second fence: even an answer from a child that was taken
over calls no function here.
"""

import builtins
import collections
import dataclasses
import enum
import importlib
import io
import pathlib
import pickle
import traceback
from typing import Any

_OWN = "dballoc."
_PLAIN = {
    ("builtins", name): getattr(builtins, name)
    for name in ("set", "frozenset", "bytearray", "complex", "range", "slice")
} | {
    ("collections", "defaultdict"): collections.defaultdict,
    ("collections", "Counter"): collections.Counter,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("pathlib", "PosixPath"): pathlib.PosixPath,
}


class ChildError(Exception):
    """The child met an error that nobody expected: its type and text. ``frames``: where."""

    def __init__(self, text: str, frames: str) -> None:
        super().__init__(text, frames)
        self.frames = frames

    def __str__(self) -> str:
        return str(self.args[0])


def pack_answer(value: Any) -> bytes:
    """Return a value as bytes."""
    data = io.BytesIO()
    _Writer(data, protocol=5).dump(value)
    return data.getvalue()


def pack_error(error: BaseException) -> bytes:
    """Return an error as bytes; one that :func:`unpack_answer` would refuse as a
    :class:`ChildError`.
    """
    try:
        data = pack_answer(error)
        unpack_answer(data)
    except Exception:
        frames = "".join(traceback.format_tb(error.__traceback__)[-20:])
        return pack_answer(ChildError(f"{type(error).__name__}: {error}", frames))
    return data


def unpack_answer(data: bytes) -> Any:
    """Return the value. Raises pickle.UnpicklingError, or what a class's own rules raise, if it is
    not of our types.
    """
    return _AnswerUnpickler(io.BytesIO(data)).load()


class _Writer(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        # Python 3.11 writes an enumeration as a call of getattr.
        return (type(value), (value.value,)) if isinstance(value, enum.Enum) else NotImplemented


class _AnswerUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return _PLAIN[module, name]
        kind = None
        if "." not in name and (module == "builtins" or module.startswith(_OWN)):
            kind = getattr(importlib.import_module(module), name, None)
        if isinstance(kind, type) and _is_data(kind):
            return kind
        raise pickle.UnpicklingError(f"{module}.{name} is no part of an answer")


def _is_data(kind: type) -> bool:
    return (
        dataclasses.is_dataclass(kind)
        or issubclass(kind, enum.Enum | BaseException | int | float | str)
        or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    )
