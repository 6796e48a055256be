"""What an allocator itself says of its settings: ld.so's list, what a process prints, or a function
that is asked.

How each is made to tell is data: `dump` and `names` in catalogue/tunables.toml.
"""

import os
import re
import stat
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dballoc import readers
from dballoc.allocators import tunables
from dballoc.allocators.find_library import Allocator
from dballoc.host.unprivileged.run_unprivileged import Unanswered, run_unprivileged

_PT_INTERP = 3
_LONGEST = 4096

# In a throwaway process, as an allocator's version is asked: a name a line, with its number.
_ASK = """
import ctypes, sys
function = getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])
for name in sys.argv[3:]:
    value = ctypes.c_size_t()
    if function(name.encode(), ctypes.byref(value)):
        print(name, value.value)
"""


def names(allocator: Allocator, argv: Sequence[str], env: Mapping[str, str]) -> set[str] | None:
    """The settings that this very library or loader shows, as a variant names them; None where that
    cannot be seen.

    ``argv``: a command that starts the server and ends at once; ``env``: the variant's, without its
    settings.
    """
    mine = tunables.family(allocator)
    if mine is None:
        return None
    if "names" in mine:
        if not allocator.libraries:
            return None
        start = allocator.entry["tunables"]["env"].partition("{")[0]
        texts = [
            found for library in allocator.libraries for found in _in_file(library, mine["names"])
        ]
        return {text.removeprefix(start).lower() for text in texts}
    if "line" not in mine.get("dump", {}):
        return None
    found = read(allocator, argv, env)
    prefix = mine["dump"].get("item", "{name}").partition("{")[0]
    return {name.removeprefix(prefix) for name in found} if found else None


def read(allocator: Allocator, argv: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """Its settings by the dump's names, as it has taken them in a process with that command and
    environment; none where it says nothing.
    """
    mine = tunables.family(allocator)
    how = mine["dump"]["how"] if mine and "dump" in mine else ""
    if how == "loader":
        return in_text(
            allocator,
            _run(
                [loader(argv[0]), "--list-tunables"],
                {k: v for k, v in env.items() if k != "LD_PRELOAD"},
            ),
        )
    if how == "prints":
        return in_text(allocator, _run([*argv, "--version"], env))
    if how == "asks" and mine:
        return _ask(allocator, mine, env)
    return {}


def of_running(allocator: Allocator, pid: int) -> dict[str, str]:
    """As :func:`read`, with the environment and the loader of a running server. What is printed is
    in its log instead.
    """
    mine = tunables.family(allocator)
    if mine is None or mine.get("dump", {}).get("how") not in ("loader", "asks"):
        return {}
    try:
        raw = readers.of_process(f"/proc/{pid}/environ")
        executable = os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return {}
    pairs = (
        item.decode(errors="surrogateescape").partition("=")
        for item in raw.split(b"\0")
        if b"=" in item
    )
    return read(allocator, [executable], {name: value for name, _, value in pairs})


def in_text(allocator: Allocator, text: str) -> dict[str, str]:
    """The settings in what a process or the loader has printed; the first word on each counts."""
    mine = tunables.family(allocator)
    if mine is None or "line" not in mine.get("dump", {}):
        return {}
    found: dict[str, str] = {}
    for line in re.finditer(mine["dump"]["line"], text, re.MULTILINE):
        found.setdefault(line["name"], line["value"])
    return found


def loader(executable: str) -> str:
    """The loader that starts an executable: its PT_INTERP (elf(5)), or itself where it is one. An
    empty text if neither.
    """
    if Path(executable).name.startswith(("ld-linux", "ld.so", "ld-2")):
        return executable
    try:
        # It may be gone, and what has its name now may be anything: a pipe would not let us go.
        with open(os.open(executable, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as f:
            if not stat.S_ISREG(os.fstat(f.fileno()).st_mode):
                return ""
            head = f.read(64)
            if len(head) < 64 or head[:4] != b"\x7fELF" or head[4] != 2:
                return ""
            (offset,) = struct.unpack_from("<Q", head, 32)
            size, number = struct.unpack_from("<HH", head, 54)
            f.seek(offset)
            table = f.read(size * number)
            for i in range(number):
                (kind, _, start, _, _, length) = struct.unpack_from("<IIQQQQ", table, i * size)
                if kind == _PT_INTERP:
                    f.seek(start)
                    return f.read(min(length, _LONGEST)).rstrip(b"\0").decode()
    except (OSError, struct.error, UnicodeDecodeError):
        pass
    return ""


def _in_file(library: Path, pattern: str) -> list[str]:
    try:
        return [found.decode() for found in re.findall(pattern.encode(), library.read_bytes())]
    except OSError:
        return []


def _ask(allocator: Allocator, mine: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, str]:
    library = os.fspath(allocator.libraries[0]) if allocator.libraries else ""
    wanted = [name for s in mine["settings"] if (name := tunables.dumped_name(mine, s))]
    argv = [
        os.path.realpath(sys.executable),
        "-I",
        "-S",
        "-c",
        _ASK,
        library,
        mine["dump"]["function"],
        *wanted,
    ]
    said = _run(argv, {**env, "LD_PRELOAD": library})
    found = (line.split() for line in said.splitlines())
    return {words[0]: words[1] for words in found if len(words) == 2 and words[0] in wanted}


def _run(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """All that a command prints; nothing if it cannot be run, which its proof of use will tell."""
    try:
        done = run_unprivileged(argv, env)
    except Unanswered:
        return ""
    return done.stdout + done.stderr
