"""Which settings an allocator itself reports: in ld.so's list, in what a process prints, or by a
function that returns them.

How each allocator reports them is data: `dump` and `names` in catalogue/tunables.toml.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dballoc.allocators import tunables
from dballoc.allocators.find_library import Allocator
from dballoc.ground import readers
from dballoc.ground.files.foreign_file import open_foreign_file
from dballoc.host.elf.elf_answers import ask_elf_parser
from dballoc.host.elf.loader import is_loader
from dballoc.host.process.handle import Process
from dballoc.host.unprivileged.run_unprivileged import Unanswered, run_unprivileged
from dballoc.host.unprivileged.sandbox import SandboxError

_LARGEST_LIBRARY = 64 * readers.MIB

# Run in a process of its own; prints a name and its number on each line.
_QUERY_SCRIPT = """
import ctypes, sys
function = getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])
for name in sys.argv[3:]:
    value = ctypes.c_size_t()
    if function(name.encode(), ctypes.byref(value)):
        print(name, value.value)
"""


def list_reported_names(
    allocator: Allocator, argv: Sequence[str], env: Mapping[str, str]
) -> set[str] | None:
    """List the settings that this very library or loader shows, as a variant names them; None where
    it shows none.

    ``argv``: a command that starts the server and ends at once; ``env``: the variant's, without its
    settings.
    """
    family = tunables.find_family(allocator)
    if family is None:
        return None
    if "names" in family:
        if not allocator.libraries:
            return None
        start = allocator.entry["tunables"]["env"].partition("{")[0]
        texts = [
            text
            for library in allocator.libraries
            for text in _find_texts(library, family["names"])
        ]
        return {text.removeprefix(start).lower() for text in texts}
    if "line" not in family.get("dump", {}):
        return None
    settings = read_reported_settings(allocator, argv, env)
    prefix = family["dump"].get("item", "{name}").partition("{")[0]
    return {name.removeprefix(prefix) for name in settings} if settings else None


def read_reported_settings(
    allocator: Allocator, argv: Sequence[str], env: Mapping[str, str]
) -> dict[str, str]:
    """Read the allocator's settings, by the dump's names, as a process with that command and
    environment has them; none where it reports nothing.
    """
    family = tunables.find_family(allocator)
    how = family["dump"]["how"] if family and "dump" in family else ""
    if how == "loader":
        return parse_reported_settings(
            allocator,
            _run_command(
                [find_loader(argv[0]), "--list-tunables"],
                {k: v for k, v in env.items() if k != "LD_PRELOAD"},
            ),
        )
    if how == "prints":
        return parse_reported_settings(allocator, _run_command([*argv, "--version"], env))
    if how == "asks" and family:
        return _query_function(allocator, family, env)
    return {}


def read_running_settings(allocator: Allocator, process: Process) -> dict[str, str]:
    """Return :func:`read_reported_settings` with the environment and the loader of a running
    server; none for an allocator that prints its settings, which are in the server's log.
    """
    family = tunables.find_family(allocator)
    if family is None or family.get("dump", {}).get("how") not in ("loader", "asks"):
        return {}
    try:
        environ, executable = process.read_environment(), process.read_link("exe")
    except OSError:
        return {}
    return read_reported_settings(allocator, [executable], environ)


def parse_reported_settings(allocator: Allocator, text: str) -> dict[str, str]:
    """Parse the settings in what a process or the loader has printed; of a name that is printed
    twice, the first value.
    """
    family = tunables.find_family(allocator)
    if family is None or "line" not in family.get("dump", {}):
        return {}
    settings: dict[str, str] = {}
    for line in re.finditer(family["dump"]["line"], text, re.MULTILINE):
        settings.setdefault(line["name"], line["value"])
    return settings


def find_loader(executable: str) -> str:
    """Return the loader that starts an executable, or the file itself if it is a loader; empty if
    neither.
    """
    if is_loader(executable):
        return executable
    try:
        with open_foreign_file(Path(executable)) as file:
            return str(ask_elf_parser("read_interpreter", file.fileno()))
    except (OSError, SandboxError):
        return ""


def _find_texts(library: Path, pattern: str) -> list[str]:
    try:
        return [
            text.decode()
            for text in re.findall(pattern.encode(), readers.content(library, _LARGEST_LIBRARY))
        ]
    except readers.Unfit:
        return []


def _query_function(
    allocator: Allocator, family: Mapping[str, Any], env: Mapping[str, str]
) -> dict[str, str]:
    """Ask the allocator's function for its settings, in an unprivileged process of its own."""
    library = os.fspath(allocator.libraries[0]) if allocator.libraries else ""
    wanted = [name for s in family["settings"] if (name := tunables.find_dumped_name(family, s))]
    argv = [
        os.path.realpath(sys.executable),
        "-I",
        "-S",
        "-c",
        _QUERY_SCRIPT,
        library,
        family["dump"]["function"],
        *wanted,
    ]
    output = _run_command(argv, {**env, "LD_PRELOAD": library})
    lines = (line.split() for line in output.splitlines())
    return {words[0]: words[1] for words in lines if len(words) == 2 and words[0] in wanted}


def _run_command(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """Return all that a command prints; nothing if it cannot be run, which the proof of use will
    report.
    """
    try:
        process = run_unprivileged(argv, env)
    except Unanswered:
        return ""
    return process.stdout + process.stderr
