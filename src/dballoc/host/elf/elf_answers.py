"""What the sandbox says of ELF files, kept for the looks that follow: reading all relocations of a
server takes longer than the rest of a look.
"""

import os
from typing import Any

from dballoc.host.abandonable import touches
from dballoc.host.unprivileged.sandbox import ELF_PARSER, SECONDS

# A server has some files that are asked about; a process that names others again and again gains
# nothing by it.
_MOST_ANSWERS = 64
_answers: dict[tuple[int | str, ...], Any] = {}


def ask_elf_parser(function: str, fd: int, *values: Any) -> Any:
    """Run a function of :mod:`dballoc.host.elf.elf_parser` in the sandbox, or return what it said
    of this file before: the same device, inode and size, unchanged since (the time of change cannot
    be set). The answer is not to be changed. Raises SandboxError if there is none; that is not
    kept.
    """
    identity: tuple[int | str, ...] = (function, repr(values), *_identify(os.fstat(fd)))
    if identity not in _answers:
        seconds = min(SECONDS, touches.count_seconds_left())
        with touches.touching_file(fd):
            answer = ELF_PARSER.call(function, [fd], *values, seconds=seconds)
        while len(_answers) >= _MOST_ANSWERS:
            _answers.pop(next(iter(_answers)))
        _answers[identity] = answer
    return _answers[identity]


def _identify(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
