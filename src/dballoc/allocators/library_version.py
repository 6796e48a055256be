"""Which version of an allocator a file holds, by the file's bytes alone: nothing is loaded or
executed.

How each file shows it is data: ``version`` in catalogue/allocators.toml.
"""

from typing import Any

from dballoc.host.elf.elf_answers import ask_elf_parser
from dballoc.host.unprivileged.sandbox import SandboxError

UNKNOWN = "unknown"


def read_version(entry: dict[str, Any], fd: int, path: str) -> str:
    """Read the version from an open file; ``unknown`` if the file does not show it.

    ``entry``: the allocator's row of the catalogue; ``path``: the file's real path, for those whose
    name says it.
    """
    how = entry.get("version", {})
    try:
        if "says" in how:
            return ask_elf_parser("find_text", fd, how["says"]) or UNKNOWN
        if "returned_by" in how:
            return _format_mimalloc_version(
                ask_elf_parser("read_returned_number", fd, how["returned_by"])
            )
    except SandboxError:
        return UNKNOWN
    if "file" in how:
        return _parse_path(path)
    return UNKNOWN


def _format_mimalloc_version(number: int | None) -> str:
    """Return the version that a number stands for: 209 is 2.0.9, and from 10000 on each part has
    two digits: 30300 is 3.3.0 (mimalloc.h, MI_MALLOC_VERSION).
    """
    if not number:
        return UNKNOWN
    if number < 10_000:
        return f"{number // 100}.{number // 10 % 10}.{number % 10}"
    return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"


def _parse_path(path: str) -> str:
    """Return what follows ``.so.``, else the version in the path of LLVM's run-time libraries."""
    name = path.rpartition("/")[2]
    if ".so." in name:
        return name.rpartition(".so.")[2]
    parts = path.split("/")
    return parts[-4] if len(parts) > 4 else UNKNOWN
