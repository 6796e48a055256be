"""Print text of unknown origin on a terminal: names of processes, users and files, statements, a
server's messages, tails of logs. The terminal obeys nothing in it: control characters, bidi
overrides and the like are escaped as in a Python string, and Rich's markup stays text. Everything
that a verb prints goes through :class:`Console` or :func:`say`.
"""

import dataclasses
import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

T = TypeVar("T")

# Unicode's category Other (controls, format characters such as bidi overrides, surrogates, private
# use), and separators of lines and paragraphs.
_OBEYED = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_PLAIN = re.compile(r"[ -~]*+")


def safe(text: str) -> str:
    """Return one line that a terminal shows but does not obey; line ends and tabs are escaped."""
    return text if _PLAIN.fullmatch(text) else "".join(map(_escaped, text))


def safe_lines(text: str) -> str:
    """Return text in which line ends and tabs are our own and stay; the rest as :func:`safe`."""
    return "".join(part if part in "\n\t" else safe(part) for part in re.split(r"([\n\t])", text))


def _escaped(character: str) -> str:
    if unicodedata.category(character) not in _OBEYED:
        return character
    if character < "\x7f":
        return character.encode("unicode_escape").decode("ascii")
    code = ord(character)
    return f"\\u{code:04x}" if code < 2**16 else f"\\U{code:08x}"  # as TOML has it too


def clean(value: T) -> T:
    """Return a value with every string in it (of dataclasses, mappings and sequences) as
    :func:`safe` makes it.
    """
    return _clean(value)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return safe(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {
            f.name: _clean(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init
        }
        return dataclasses.replace(value, **changed)
    if isinstance(value, dict):
        return {_clean(k): _clean(v) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(map(_clean, value))
    if isinstance(value, list | tuple):
        return type(value)(map(_clean, value))
    return value


def say(text: str, error: bool = False) -> None:
    """Print lines."""
    print(safe_lines(text), file=sys.stderr if error else sys.stdout)


def print_json(document: Any, default: Callable[[Any], str] | None = None) -> None:
    """Print what a program is to read; json.dumps escapes what a terminal would obey. ``default``
    makes text of what JSON has no type for.
    """
    print(json.dumps(document, indent=1, default=default))


class Console(rich.console.Console):
    """Rich's console, but text is never markup or an emoji code, and no character reaches the
    terminal that it would obey.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, **how})

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Print as Rich does, except for text that Rich did not make itself."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else safe_lines(text), style, control)
