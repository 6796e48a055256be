"""The last resort: an exception that nobody expected becomes one line, and its traceback a file
that only we can read.
"""

import errno
import os
import platform
import sys
import tempfile
import traceback
from pathlib import Path

import dballoc

# Set, to anything: let the traceback through, for tests and for whoever develops dballoc.
VARIABLE = "DBALLOC_TRACEBACK"
# Of a message, in the one line.
_LONGEST = 300
# Of a traceback that runs in circles.
_FRAMES = 60


def words(error: BaseException) -> str:
    """What to say of it, in one line; where it is not plain what to do, the details are put into a
    file, and the line has its place.
    """
    match error:
        case MemoryError():
            return (
                "out of memory: this needs more than is free; free some memory, or give it less "
                "to read"
            )
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            where = f"{_text(error.filename)}: " if error.filename else ""
            return f"{where}no space is left there; make room, then run the same command again"
        case RecursionError():
            reason = "the input nests too deeply"
        case _:
            reason = f"{type(error).__name__}: {_text(error)}".removesuffix(": ")
    kept = _keep(error)
    details = f"details are in {kept}" if kept else f"set {VARIABLE}=1 and run it again for details"
    return f"internal error: {reason}; {details}; please report it"


def _keep(error: BaseException) -> Path | None:
    """Write the traceback, without the values of variables, where no one else can have put
    anything. None if that fails.
    """
    try:
        # Mode 0700, of a name that was not there (mkdtemp(3)): what another user has laid into /tmp
        # is not followed.
        path = Path(tempfile.mkdtemp(prefix="dballoc-error-")) / "details.txt"
        fd = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        with open(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(_details(error))
    except Exception:  # whatever it is: the line is what matters
        return None
    return path


def _details(error: BaseException) -> str:
    """Versions, the verb and its flags without what they were given, and the traceback."""
    flags = [word.partition("=")[0] if word.startswith("-") else "…" for word in sys.argv[2:]]
    command = " ".join(["dballoc", *sys.argv[1:2], *flags])
    about = (
        f"dballoc {dballoc.__version__}, Python {platform.python_version()}, {platform.platform()}"
    )
    # Only places and source lines: messages of exceptions may quote what was read. The last one's
    # is in the line printed.
    frames = "".join(_frames(link) for link in _chain(error))
    return f"{about}\n{command}\n\n{frames}"


def _chain(error: BaseException) -> list[BaseException]:
    """The exception and those that it came from, the first cause first."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain and len(chain) < 10:
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return chain[::-1]


def _frames(error: BaseException) -> str:
    summary = traceback.StackSummary.extract(
        traceback.walk_tb(error.__traceback__), lookup_lines=True, capture_locals=False
    )
    kept = (
        [*summary[: _FRAMES // 2], *summary[-_FRAMES // 2 :]] if len(summary) > _FRAMES else summary
    )
    return "".join([*traceback.format_list(kept), type(error).__name__, "\n\n"])


def _text(value: object) -> str:
    """In one line, and not too long."""
    try:
        text = " ".join(str(os.fsdecode(value) if isinstance(value, bytes) else value).split())
    except Exception:
        return "?"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
