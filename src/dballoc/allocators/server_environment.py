"""The environment that a server is started with under an allocator. Pure."""

import os
from collections.abc import Mapping
from pathlib import Path

from dballoc.allocators import version_ranges
from dballoc.allocators.find_library import Allocator

# Variables of the user's shell that would configure a variant's loader or malloc.
_ALLOCATOR_VARIABLES = (
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
# Variables of a systemd service that we may run in: a server would notify it, or use its sockets.
_SERVICE_VARIABLES = ("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID")


def remove_allocator_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables that configure a malloc, the loader or a service."""
    removed = (*_ALLOCATOR_VARIABLES, *_SERVICE_VARIABLES)
    return {k: v for k, v in variables.items() if not k.startswith(removed)}


def _is_strict(allocator: Allocator) -> bool:
    """Whether the version has the switch that makes it refuse unknown settings."""
    versions = allocator.entry["tunables"].get("strict_versions", ["-"])
    return version_ranges.is_in_any(allocator.version, versions)


def build_environment(
    base: Mapping[str, str],
    allocator: Allocator,
    tunables: Mapping[str, str],
    env: Mapping[str, str],
    before: tuple[Path, ...] = (),
    measuring: bool = True,
) -> dict[str, str]:
    """Return ``base`` without what configures a malloc, plus the allocator's preload and settings.

    ``before`` is preloaded ahead of the allocator's own libraries (shims, and what the user names).
    ``env`` is the user's and takes precedence; a variable with several sources is joined
    where the allocator has a joining character. ``measuring``: the library also prints its
    statistics at exit, and refuses settings that it does not know; for a server in production,
    neither.
    """
    result = remove_allocator_variables(base)
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
    strict = style.get("strict", []) if measuring and _is_strict(allocator) else []
    if items := [*style.get("always", []), *strict]:
        written.setdefault(style["env"], []).extend(items)
    for name, value in env.items():
        # The user's settings come last: allocators take the last value of a setting.
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
