"""Read untrusted data within bounds: files, JSON, TOML, and /proc entries of a process that nobody
trusts.

Each function reads a limited number of bytes, and accepts only numbers that a server, a database
and a data frame can hold. There is one error, :class:`Unfit`: a reason without the file's name,
which the caller knows. For /proc it is OSError, as for any other failure there.
"""

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import stat
import tomllib
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dballoc.ground.errors import UsageError
from dballoc.ground.files import foreign_file

if TYPE_CHECKING:
    from pydantic import ValidationError

MIB = 2**20
# Bytes of files that people write by hand, and of those in a results directory beside the database.
SMALL = 4 * MIB
# Brackets within brackets; what dballoc writes has fewer than ten.
_DEEPEST = 64
# A server's counters have 64 bits without a sign.
_LARGEST = 2**64
_CHUNK = MIB
# tomllib's memory grows with the square of a key's parts: 100,000 of them are hundreds of GB.
_LONG_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){50}""")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Unfit(Exception):
    """The file cannot be read, or does not hold what it should; the text is a short reason."""


@contextlib.contextmanager
def naming(place: object) -> Iterator[None]:
    """Turn what reading raises, Unfit or OSError, into a UsageError that begins with ``place``."""
    try:
        yield
    except Unfit as error:
        raise UsageError(f"{place}: {error}") from None
    except OSError as error:
        raise UsageError(f"{place}: cannot be read: {reason(error)}") from None


def open_file(path: Path, below: Path | None = None) -> BufferedReader:
    """Open a regular file for reading, for a caller that bounds its reads. Unfit if that fails.

    ``below``, here and in what follows: the directory that somebody else made, in which ``path``
    lies; no link in it is followed (:mod:`dballoc.ground.files.foreign_file`).
    """
    try:
        return foreign_file.open_foreign_file(path, below)
    except foreign_file.NotRegular as error:
        raise Unfit(reason(error)) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in its name
        raise Unfit(f"cannot be read: {reason(error)}") from None


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file. Unfit if it cannot be opened, OSError if it cannot be read."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content(path: Path, most: int = SMALL, *, below: Path | None = None) -> bytes:
    """Return the bytes of a file. Unfit if it cannot be read, or has more than ``most``."""
    return _whole(_pieces(path, below), most, "is larger than")


def text(
    path: Path, most: int = SMALL, *, errors: str = "strict", below: Path | None = None
) -> str:
    """Return the file's text. Unfit also if it is not UTF-8, unless ``errors`` (as for
    bytes.decode) handles that.
    """
    return decoded(content(path, most, below=below), errors)


def decoded(data: bytes | bytearray, errors: str = "strict") -> str:
    """Decode UTF-8, with or without a byte-order mark. Unfit if it is not UTF-8."""
    try:
        return data.decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        raise Unfit(f"not UTF-8: {error.reason} at byte {error.start}") from None


def unpacked(path: Path, most: int, *, below: Path | None = None) -> bytes:
    """Return the content of a gzip file. Unfit if it is not one, is damaged or cut short, or
    unpacks to more than ``most``.
    """
    return _whole(_inflated(path, below), most, "unpacks to more than")


def lines(path: Path, longest: int, most: int) -> Iterator[bytes]:
    """Yield the lines of a file, unpacked if its name ends in ``.gz``; the last line may lack its
    end. Unfit as for :func:`unpacked`, and if a line is longer than ``longest``.
    """
    begun = bytearray()
    for piece in _limited(
        _inflated(path) if path.suffix == ".gz" else _pieces(path),
        most,
        "is, unpacked, larger than",
    ):
        *ended, rest = piece.split(b"\n")
        for end in ended:
            yield bytes(begun + end + b"\n")
            begun.clear()
        begun += rest
        if len(begun) > longest:
            raise Unfit(f"has a line of more than {_size(longest)}")
    if begun:
        yield bytes(begun)


def document(written: str | bytes, finite: bool = True) -> Any:
    """Parse JSON. Unfit if it is not JSON, nests too deeply, or has a number that is out of range,
    or with ``finite`` an infinite one or NaN. Half of a surrogate pair becomes U+FFFD, because it
    could be neither printed nor stored.
    """
    plain = decoded(written) if isinstance(written, bytes) else written
    try:
        real, constant = (_real, _no_number) if finite else (float, float)
        value = json.loads(plain, parse_int=_integer, parse_float=real, parse_constant=constant)
        return _checked(value)
    except RecursionError:
        raise Unfit("not JSON that can be read: it nests too deeply") from None
    except ValueError as error:
        raise Unfit(f"not JSON: {reason(error)}") from None


def table(written: str) -> dict[str, Any]:
    """Parse TOML. Unfit as for :func:`document`, and for all that :func:`sensible` refuses."""
    if _LONG_KEY.search(written):
        raise Unfit("not TOML that can be read: a key of more than 50 parts")
    try:
        table = tomllib.loads(written)
    except RecursionError:
        raise Unfit("not TOML that can be read: it nests too deeply") from None
    except ValueError as error:
        raise Unfit(f"not TOML: {reason(error)}") from None
    sensible(table)
    return table


def sensible(value: Any) -> None:
    """Raise Unfit, with the key, for values that no program, server or database accepts: NUL and
    halves of characters in texts, numbers beyond 64 bits, endlessly nested tables.
    """
    waiting: list[tuple[str, Any, int]] = [("", value, 0)]
    while waiting:
        place, current, depth = waiting.pop()
        if depth > _DEEPEST:
            raise Unfit(f"{place[:80]}…: nests too deeply")
        match current:
            case str():
                _sensible_text(current, f"{place}: " if place else "")
            case bool():
                pass
            case int() if not -(2**63) <= current < 2**63:
                raise Unfit(f"{place}: a number that is too large")
            case float() if not math.isfinite(current):
                raise Unfit(f"{place}: {current} is not a finite number")
            case list():
                waiting += [(f"{place}[{i}]", item, depth + 1) for i, item in enumerate(current)]
            case dict():
                for key in current:
                    _sensible_text(
                        str(key), f"{place}: the key {shown(str(key))}: ".removeprefix(": ")
                    )
                waiting += [
                    (f"{place}.{key}".lstrip("."), item, depth + 1) for key, item in current.items()
                ]


def _sensible_text(written: str, before: str) -> None:
    if "\0" in written:
        raise Unfit(
            f"{before}{shown(written)} has a NUL character in it, which no program can be given"
        )
    if _SURROGATE.search(written):
        raise Unfit(f"{before}{shown(written)} is not UTF-8, which it must be here")


def shown(written: str, most: int = 60) -> str:
    """Return a text as it may stand in a message: quoted, one line, not long."""
    return ascii(written) if len(written) <= most else f"{written[:most]!a}…"


def printable(written: str) -> str:
    """Return the text without halves of characters, which can be neither printed nor stored."""
    return _SURROGATE.sub("\ufffd", written)


def one_line(written: str) -> str:
    """Return the text with ``?`` for whatever cannot be printed within a line: controls, ends of
    lines, halves of characters.
    """
    return "".join(letter if letter.isprintable() else "?" for letter in written)


def of_process(path: str | Path, most: int = 8 * MIB) -> bytes:
    """Return the content of a file below /proc. OSError as open raises it, and EFBIG if it has more
    than ``most`` bytes: a process decides how long its environment, its arguments and its list of
    mappings are.
    """
    with open(path, "rb", buffering=0) as file:
        parts, size = [], 0
        while piece := file.read(_CHUNK):
            parts.append(piece)
            size += len(piece)
            if size > most:
                raise OSError(
                    errno.EFBIG,
                    f"it is larger than {_size(most)}, so it is not read",
                    os.fspath(path),
                )
    return b"".join(parts)


def text_of_process(path: str | Path, most: int = 8 * MIB) -> str:
    """Return the content as text; bytes that are not UTF-8 become U+FFFD."""
    return of_process(path, most).decode(errors="replace")


def rows(written: str) -> list[str]:
    """Split a text of the kernel's into lines, at newlines only. The kernel escapes newlines in
    names that a process chose, but not the other characters that str.splitlines takes for line
    ends.
    """
    rows = written.split("\n")
    return rows if rows[-1] else rows[:-1]


def reason(error: Exception) -> str:
    """Return one line of an error's message."""
    reason = (
        (error.strerror if isinstance(error, OSError) else None)
        or str(error)
        or type(error).__name__
    )
    return " ".join(reason.split())


def first_complaint(error: "ValidationError") -> str:
    """Return the place and reason of the first value that a model refuses; without the value, which
    may be long.
    """
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = one_line(".".join(str(part)[:40] for part in first["loc"]))
    return (
        f"{place}: {reason(ValueError(first['msg']))}"
        if place
        else reason(ValueError(first["msg"]))
    )


def regular(path: Path) -> bool:
    """Whether a file exists; Unfit if it is anything but a plain file, because opening that may
    block for ever.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        raise Unfit(f"cannot be read: {reason(error)}") from None
    if not stat.S_ISREG(mode):
        raise Unfit("is not a plain file")
    return True


def _pieces(path: Path, below: Path | None = None) -> Iterator[bytes]:
    with open_file(path, below) as file:
        try:
            while piece := file.read(_CHUNK):
                yield piece
        except OSError as error:
            raise Unfit(f"cannot be read: {reason(error)}") from None


def _inflated(path: Path, below: Path | None = None) -> Iterator[bytes]:
    """Yield the content in small pieces, however much the file expands; gzip members follow one
    another (RFC 1952).
    """
    member, empty = _member(), True
    for piece in _pieces(path, below):
        while piece:
            empty = False
            try:
                yield member.decompress(piece, _CHUNK)
                while member.unconsumed_tail:
                    yield member.decompress(member.unconsumed_tail, _CHUNK)
            except zlib.error:
                raise Unfit("not gzip, or damaged") from None
            piece = b""
            if member.eof:
                piece, member, empty = member.unused_data.lstrip(b"\0"), _member(), True
    if not empty:
        raise Unfit("gzip that is cut short")


def _member() -> Any:
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)


def _limited(pieces: Iterator[bytes], most: int, complaint: str) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > most:
            raise Unfit(f"{complaint} {_size(most)}, more than dballoc reads")
        yield piece


def _whole(pieces: Iterator[bytes], most: int, complaint: str) -> bytes:
    return b"".join(_limited(pieces, most, complaint))


def _size(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size} bytes"


def _integer(digits: str) -> int:
    value = int(digits) if len(digits) <= 21 else _LARGEST
    if not -_LARGEST < value < _LARGEST:
        raise ValueError(f"the number {digits[:24]}… is too large")
    return value


def _real(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _no_number(digits)


def _no_number(digits: str) -> float:
    raise ValueError(f"{digits[:24]} is not a finite number")


def _checked(value: Any, depth: int = 0) -> Any:
    """Return the value with its texts made printable."""
    if depth > _DEEPEST:
        raise RecursionError
    match value:
        case str():
            return printable(value)
        case list():
            return [_checked(item, depth + 1) for item in value]
        case dict():
            return {printable(key): _checked(item, depth + 1) for key, item in value.items()}
    return value
