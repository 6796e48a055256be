"""The environment that a server is started with under an allocator. Pure."""

import os
from collections.abc import Mapping
from pathlib import Path

from dballoc.allocators.find_library import Allocator

# What an earlier setting of the user's shell could slip under a variant.
_OURS = (
    "LD_",
    "MALLOC",
    "GLIBC_TUNABLES",
    "_RJEM_",
    "JE_MALLOC",
    "TCMALLOC_",
    "MIMALLOC_",
    "TBB_MALLOC",
    "SCUDO_",
    "PERFTOOLS_",
    "HEAPPROFILE",
    "HEAPCHECK",
    "CPUPROFILE",
)
# What would make a server report to, or listen for, the service that we may run in.
_SERVICE = ("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID")


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without anything that steers a malloc or the loader."""
    return {k: v for k, v in environment.items() if not k.startswith((*_OURS, *_SERVICE))}


def environment(
    base: Mapping[str, str],
    allocator: Allocator,
    tunables: Mapping[str, str],
    env: Mapping[str, str],
    before: tuple[Path, ...] = (),
    measuring: bool = True,
) -> dict[str, str]:
    """``base``, cleaned, with the allocator preloaded and its settings.

    ``before`` is preloaded ahead of the allocator's own libraries (shims, and what the user names).
    ``env`` is the user's word and wins; a variable that several sources write to is joined where
    the allocator has a joining character. ``measuring``: the library also prints its statistics at
    exit, and refuses settings that it does not know; for a server of one's own, neither.
    """
    result = clean(base)
    entry = allocator.entry
    style = entry["tunables"]
    written: dict[str, list[str]] = {}
    for name, value in tunables.items():
        item = style["item"].format(name=name, value=value)
        written.setdefault(style["env"].format(NAME=name.upper()), []).append(item)
    if measuring:
        for name, value in entry.get("report", {}).items():
            if name not in written or "join" in style:
                written.setdefault(name, []).append(value)
    if items := [*style.get("always", []), *(style.get("strict", []) if measuring else [])]:
        written.setdefault(style["env"], []).extend(items)
    for name, value in env.items():
        # The user's come last: where a setting is given twice, allocators take the last.
        written[name] = (
            [*written.get(name, []), value] if "join" in style and name == style["env"] else [value]
        )
    result |= {name: style.get("join", ",").join(values) for name, values in written.items()}
    libraries = (*before, *allocator.libraries)
    user_preload = env.get("LD_PRELOAD")
    if libraries or user_preload:
        result["LD_PRELOAD"] = ":".join(
            [*map(os.fspath, libraries), *([user_preload] if user_preload else [])]
        )
    return result
