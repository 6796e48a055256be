"""Turn an exception that nobody expected into one line, and its traceback into a file that only the
user can read.
"""

import errno
import os
import platform
import sys
import tempfile
import traceback
from pathlib import Path

import dballoc
from dballoc.ground.files.output_directory import write_own

# If this is set, to anything, the traceback is not caught: for tests and for developers of dballoc.
VARIABLE = "DBALLOC_TRACEBACK"
# The most characters of a message in the one line.
_LONGEST = 300
# The most frames of a traceback, which a recursion makes endless.
_FRAMES = 60


def words(error: BaseException) -> str:
    """Describe the exception in one line. If the remedy is not obvious, put the details into a file
    and name it in the line.
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
    """Write the traceback, without the values of variables, where no other user can have put a
    file. None if that fails.
    """
    try:
        # A new directory of mode 0700 (mkdtemp(3)).
        path = Path(tempfile.mkdtemp(prefix="dballoc-error-")) / "details.txt"
        write_own(path, _details(error).encode("utf-8", "backslashreplace"), private=True)
    except Exception:  # whatever it is: the line is what matters
        return None
    return path


def _details(error: BaseException) -> str:
    """Return versions, the verb, its flags without their values, and the traceback."""
    flags = [word.partition("=")[0] if word.startswith("-") else "…" for word in sys.argv[2:]]
    command = " ".join(["dballoc", *sys.argv[1:2], *flags])
    about = (
        f"dballoc {dballoc.__version__}, Python {platform.python_version()}, {platform.platform()}"
    )
    # Only places and source lines, because messages of exceptions may quote what was read. The last
    # message is in the printed line.
    frames = "".join(_frames(link) for link in _chain(error))
    return f"{about}\n{command}\n\n{frames}"


def _chain(error: BaseException) -> list[BaseException]:
    """Return the exception and its causes, the first cause first."""
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
    from dballoc.host.abandonable.answers import ChildError

    # An error of a child that looked at a process happened on the frames that it has sent.
    in_child = error.frames if isinstance(error, ChildError) else ""
    return "".join([*traceback.format_list(kept), in_child, type(error).__name__, "\n\n"])


def _text(value: object) -> str:
    """Return a text in one line of limited length."""
    try:
        text = " ".join(str(os.fsdecode(value) if isinstance(value, bytes) else value).split())
    except Exception:
        return "?"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
