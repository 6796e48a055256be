"""Name files of kinds that import does not read, by how they begin, and say what to do. Pure."""

import codecs
import re
from pathlib import Path

from dballoc.ground import readers
from dballoc.intake import foreign_kinds

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# typeperf redirected by PowerShell ends its lines with two carriage returns.
_LINE_END = re.compile(r"\r+\n")


def read_text(path: Path, most: int, *, errors: str = "strict") -> str:
    """Return a file's text with newlines alone at the ends of lines. Raises Unfit if it cannot be
    read, has more than ``most`` bytes, is no text, or is of a kind that import does not read;
    ``errors`` as for bytes.decode.
    """
    content = readers.content(path, most)
    if kind := foreign_kinds.name_kind(content):
        raise readers.Unfit(f"is {kind}")
    return decode_text(content, errors=errors)


def decode_text(data: bytes, *, errors: str = "strict") -> str:
    """Decode UTF-16 with a byte-order mark, or UTF-8 with or without one. Raises Unfit as for
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


_COLLAPSE = "run {} of the FlameGraph scripts on it, and import what that prints"

# By the first bytes.
_BYTES: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a zip archive or a spreadsheet: unpack it, or save its table as CSV"),
    (b"\x1f\x8b", "compressed by gzip: unpack it first"),
    (b"\xfd7zXZ\0", "compressed by xz: unpack it first"),
    (b"BZh", "compressed by bzip2: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd: unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive: unpack it first"),
    (b"Rar!", "a RAR archive: unpack it first"),
    (b"PERFILE2", "perf's recording: run perf script on it, then stackcollapse-perf.pl"),
    (b"SQLite format 3\0", "a database: dballoc report takes the results directory that it is in"),
    (b"%PDF-", "a PDF: write its figures into a CSV file"),
    (b"\x89PNG", "a picture: write its figures into a CSV file"),
    (b"\xff\xd8\xff", "a picture: write its figures into a CSV file"),
    (b"\x7fELF", "a program or a library"),
    (b"MZ", "a program or a library"),
)

# By the text at its beginning; each costs no more than the text's length.
_TEXTS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), kind)
    for pattern, kind in (
        (
            r"^\S[^\n]{0,100}? +\d+(?:/\d+)? +(?:\[\d{3}\] +)?\d+\.\d{6}: [^\n]{0,200}:[^\n]{0,200}"
            r"\n\s+[0-9a-f]+ ",
            f"what perf script prints: {_COLLAPSE.format('stackcollapse-perf.pl')}",
        ),
        (
            r"\A[^\n]{0,2000}(?:Function Stack|CPU Time:Self)",
            f"a table of VTune: {_COLLAPSE.format('stackcollapse-vtune.pl')}",
        ),
        (
            r"^@\w*\[\s*$\n\s+\S",
            f"what bpftrace prints: {_COLLAPSE.format('stackcollapse-bpftrace.pl')}",
        ),
        (
            r"^Thread \d+ \((?:Thread|LWP)[^\n]{0,200}\n#0 ",
            f"stacks of gdb: {_COLLAPSE.format('stackcollapse-gdb.pl')}",
        ),
        (
            r"\A\s*(?:<\?xml[^\n]{0,200}\n)?\s*(?:<!DOCTYPE svg[^>]{0,300}>\s*)?<svg\b",
            "a picture (SVG): import the collapsed stacks that a flame graph was made from",
        ),
        (r"\A\s*<(?:!DOCTYPE html|html)\b", "a web page: write its figures into a CSV file"),
        (r"\Adesc: [^\n]*\ncmd: ", "what massif writes: dballoc profile massif reads it"),
        (r"\A\s*[{\[]\s*[\"{\[]", "JSON: write its figures into a CSV file"),
    )
)
# ustar's mark, and where it stands (tar(5)).
_TAR, _TAR_AT = b"ustar", 257
_BEGINNING = 16 * 1024


def name_kind(content: bytes) -> str | None:
    """Return what a file is, with what to do, if it is of a kind that import does not read; None if
    nothing speaks against it.
    """
    if content[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        return "a tar archive: unpack it first"
    for mark, kind in _BYTES:
        if content.startswith(mark):
            return kind
    text = content[:_BEGINNING].decode("utf-8-sig", "replace")
    return next((kind for pattern, kind in _TEXTS if pattern.search(text)), None)
