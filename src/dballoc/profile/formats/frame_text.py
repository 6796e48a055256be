"""Read frames as other programs write them in one text: ``function``, ``module!function``,
``function+0x1f``, and the marks of stackcollapse-perf.pl. Pure.
"""

import re

from dballoc.profile.call_tree import TRUNCATED
from dballoc.profile.contention.wait_rules import KERNEL
from dballoc.profile.model import Frame

# Of Windows' tools: the file, then the function. A C++ operator has an exclamation mark as well.
_MODULE = re.compile(r"(?!operator!)([^!`\s:;<>(]{1,255})!(.+)", re.DOTALL)
_OFFSET = re.compile(r" ?\+ ?0x[0-9a-fA-F]{1,16}$")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{1,16}")
_OWN_ADDRESS = re.compile(r"([^!`\s:;<>(+]{1,255})\+0x[0-9a-fA-F]{1,16}")
# stackcollapse-perf.pl --all: kernel, inlined, compiled at run time.
_MARK = re.compile(r"_\[([kijw])\]$")
_NAMELESS = frozenset(
    ("", "?", "unknown", "[unknown]", "[unnamed]", "<pdb not found>", "<pdb_not_found>", "n/a")
)


def parse_frame(text: str) -> Frame:
    """Return the frame. One without a function's name keeps its text and is not ``named``."""
    text = text.strip()
    if match := _MARK.search(text):
        module = KERNEL if match[1] == "k" else ""
        return Frame(text[: match.start()] or "[unnamed]", module, match.start() > 0)
    if match := _MODULE.fullmatch(text):
        return _parse_function(match[2].strip(), match[1], text)
    if match := _OWN_ADDRESS.fullmatch(text):
        return Frame(text, match[1], named=False)
    return _parse_function(text, "", text)


def _parse_function(function: str, module: str, text: str) -> Frame:
    """Return the frame of a function of a module; ``text``: all that the file has of it."""
    name = _OFFSET.sub("", function).strip()
    if name.lower() in _NAMELESS or _ADDRESS.fullmatch(name):
        return Frame(text or "[unnamed]", module, named=False)
    return Frame(name, module)


def is_truncation(frame: Frame) -> bool:
    """Whether a stack's first frame only says that outer ones are missing, as in our exports."""
    return frame.function == TRUNCATED.function
