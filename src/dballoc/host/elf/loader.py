"""Find the program of a process that was started through the loader, as ``ld.so [OPTION…] PROGRAM
[ARGUMENT…]`` (ld.so(8)).
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from dballoc.host.process import maps
from dballoc.host.process.handle import Process

_LOADER = re.compile(
    r"ld-musl-\w+\.so\.1|ld-linux[\w-]*\.so\.\d+|ld-[\d.]+\.so|ld64\.so\.\d+|ld\.so(\.\d+)?"
)
# Options whose value is the next word.
_WITH_VALUE = {
    "--library-path",
    "--glibc-hwcaps-prepend",
    "--glibc-hwcaps-mask",
    "--inhibit-rpath",
    "--audit",
    "--preload",
    "--argv0",
}


def is_loader(path: str) -> bool:
    """Whether a path is a loader, by its file name."""
    return _LOADER.fullmatch(Path(path).name) is not None


def find_program_index(words: Sequence[str]) -> int | None:
    """Return the index of the program in the command line of a loader; None if it names none."""
    at = 1
    while at < len(words) and words[at].startswith("--"):
        at += 2 if words[at] in _WITH_VALUE else 1
    return at if at < len(words) else None


def find_main_program(process: Process) -> str:
    """Return the path of a process's main program, in its own mount namespace: its executable, or
    the program that its loader was given, if that is mapped. Raises OSError if the process cannot
    be read.
    """
    executable = process.read_link("exe")
    if not is_loader(executable):
        return executable
    words = process.read_words()
    at = find_program_index(words)
    if at is None:
        return executable
    named = (
        words[at]
        if words[at].startswith("/")
        else os.path.join(process.read_link("cwd"), words[at])
    )
    name = Path(os.path.realpath(named)).name
    paths = (line.path for line in maps.read_maps(process))
    return next((p for p in paths if p != executable and Path(p).name == name), executable)
