"""Which version of an allocator a file holds, by the file's bytes alone: nothing is loaded or
executed.

How each tells is data: ``version`` in catalogue/allocators.toml.
"""

from typing import Any

from dballoc.host.unprivileged.sandbox import ELF_PARSER, SandboxError

UNKNOWN = "unknown"


def read_version(entry: dict[str, Any], fd: int, path: str) -> str:
    """Read the version from an open file; ``unknown`` if it does not tell.

    ``entry``: the allocator's row of the catalogue; ``path``: the file's real path, for those whose
    name says it.
    """
    how = entry.get("version", {})
    try:
        if "says" in how:
            return ELF_PARSER.call("find_text", [fd], how["says"]) or UNKNOWN
        if "returned_by" in how:
            return _in_words(ELF_PARSER.call("read_returned_number", [fd], how["returned_by"]))
    except SandboxError:
        return UNKNOWN
    if "file" in how:
        return _in_path(path)
    return UNKNOWN


def _in_words(number: int | None) -> str:
    """mimalloc's: 209 is 2.0.9, from 10000 on two digits a part: 30300 is 3.3.0 (mimalloc.h,
    MI_MALLOC_VERSION).
    """
    if not number:
        return UNKNOWN
    if number < 10_000:
        return f"{number // 100}.{number // 10 % 10}.{number % 10}"
    return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"


def _in_path(path: str) -> str:
    """What follows ``.so.``, else the version's directory of LLVM's run-time libraries."""
    name = path.rpartition("/")[2]
    if ".so." in name:
        return name.rpartition(".so.")[2]
    parts = path.split("/")
    return parts[-4] if len(parts) > 4 else UNKNOWN
