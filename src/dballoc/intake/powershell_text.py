"""Read text as programs on Windows leave it: PowerShell's ``>`` and Tee-Object write UTF-16 with a
byte-order mark and CRLF, Export-Csv and newer versions UTF-8.
"""

import codecs
import re
from pathlib import Path

from dballoc import readers
from dballoc.intake import foreign_kinds

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# typeperf redirected by PowerShell ends its lines with two carriage returns.
_LINE_END = re.compile(r"\r+\n")


def read_text(path: Path, most: int, *, errors: str = "strict") -> str:
    """Return a file's text with newlines alone at the ends of lines. Unfit if it cannot be read,
    has more than ``most`` bytes, is no text, or is of a kind that import does not read; ``errors``
    as for bytes.decode.
    """
    content = readers.content(path, most)
    if kind := foreign_kinds.name_kind(content):
        raise readers.Unfit(f"is {kind}")
    return decode_text(content, errors=errors)


def decode_text(data: bytes, *, errors: str = "strict") -> str:
    """Decode UTF-16 with a byte-order mark, or UTF-8 with or without one. Unfit as for
    :func:`read_text`.
    """
    if data.startswith(_UTF_16):
        try:
            text = data.decode("utf-16", errors)
        except UnicodeDecodeError as error:
            raise readers.Unfit(f"not UTF-16: {error.reason} at byte {error.start}") from None
    else:
        text = readers.decoded(data, errors)
    if "\0" in text:
        raise readers.Unfit(
            "has NUL characters: not a text, or UTF-16 without a byte-order mark; save it as UTF-8"
        )
    return _LINE_END.sub("\n", text)
