"""Transparent huge pages: what the host has, what variants ask of it, and the mode of a process."""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from dballoc.ground import readers
from dballoc.host.process.handle import Process
from dballoc.host.settings.writable_settings import HOST_SETTINGS, read_setting

SETTING, DEFRAG = "thp", "thp_defrag"
_SIZE = "thp_"
ENABLED = HOST_SETTINGS[SETTING].path

# Settings of the host by their names in HOST_SETTINGS; those that a variant asks are its
# ``host_settings``.
Settings = Mapping[str, str]


class Switched(NamedTuple):
    """A setting that is not what it should be: its file, that value, and the one it has."""

    path: str
    expected: str
    value: str


def read_mode() -> str | None:
    """Read the host's mode (``always``, ``madvise``, ``never``); None if the kernel has no THP."""
    return _read(SETTING)


def read_host() -> dict[str, str]:
    """Read the settings that this kernel has: the mode, ``defrag``, the mode of each size. Empty if
    it has no THP.
    """
    values = {name: _read(name) for name in HOST_SETTINGS}
    return {name: value for name, value in values.items() if value is not None}


def _read(name: str) -> str | None:
    try:
        return read_setting(HOST_SETTINGS[name].path)
    except OSError:
        return None  # not in this kernel


def describe_settings(settings: Settings) -> str:
    """Return settings in words: ``always, defrag never, 64K always``."""
    return ", ".join(
        value if name == SETTING else f"{name.removeprefix(_SIZE)} {value}"
        for name, value in settings.items()
    )


def find_switched(expected: Settings) -> Switched | None:
    """Return the first setting of the host that is not as expected."""
    for name, value in expected.items():
        if (now := _read(name)) != value:
            return Switched(HOST_SETTINGS[name].path, value, now or "absent")
    return None


def find_obstacle(wanted: Settings) -> str | None:
    """Return why this host cannot have the settings that a variant asks, behind the key of the
    experiment file that asks it; None if it can.
    """
    host = read_host()
    for name, value in wanted.items():
        if host.get(name) == value:
            continue
        if obstacle := _find_obstacle(name, value, host):
            return f"{_name_key(name)}: {obstacle}"
    return None


def _find_obstacle(name: str, value: str, host: Settings) -> str | None:
    if SETTING not in host:
        return "this kernel has no transparent huge pages"
    if name not in host:
        sizes = ", ".join(_list_sizes(host))
        return f"this kernel cannot switch it; it has {sizes or 'no switches of sizes (Linux 6.8)'}"
    path = HOST_SETTINGS[name].path
    if value not in (values := _read_values(name)):
        return f"this kernel does not know {value!r}; it knows {', '.join(values)}"
    if not os.access(path, os.W_OK):
        return (
            f"the host is at {host[name]!r} and only root can switch it to {value!r}; run as root"
        )
    return None


def _name_key(name: str) -> str:
    """Return the key of a variant by which a setting is asked."""
    return name if name in (SETTING, DEFRAG) else f"thp_sizes.{name.removeprefix(_SIZE)}"


def _read_values(name: str) -> list[str]:
    """Read which values a setting takes in this kernel: ``always [madvise] never``."""
    with open(HOST_SETTINGS[name].path) as f:
        return f.readline(4096).replace("[", "").replace("]", "").split()


def _list_sizes(host: Settings) -> list[str]:
    """Return the sizes of huge pages that the kernel has switches for."""
    return [name.removeprefix(_SIZE) for name in host if name not in (SETTING, DEFRAG)]


def list_unusual_sizes(host: Settings) -> dict[str, str]:
    """Return the sizes whose mode is not the kernel's default: ``inherit`` for the size that the
    hardware maps at once, ``never`` for the others.
    """
    usual_file = _find_file_of_mapped_size()
    return {
        name: value
        for name, value in host.items()
        if name not in (SETTING, DEFRAG)
        and value != ("inherit" if HOST_SETTINGS[name].path == usual_file else "never")
    }


def read_mapped_size() -> int | None:
    """Read the bytes of the huge pages that an entry of the page table maps at once: 2 MiB with
    pages of 4 KiB, 32 and 512 MiB with those of 16 and 64 KiB. None if the kernel has none.
    """
    directory = os.path.dirname(HOST_SETTINGS[SETTING].path)
    try:
        size = readers.text_of_process(f"{directory}/hpage_pmd_size")
        return int(size) or None
    except (OSError, ValueError):
        return None


def _find_file_of_mapped_size() -> str:
    """Return the switch of :func:`read_mapped_size`; empty if there is none."""
    directory, size = os.path.dirname(HOST_SETTINGS[SETTING].path), read_mapped_size()
    return f"{directory}/hugepages-{size // 1024}kB/enabled" if size else ""


def describe_host(host: Settings) -> str:
    """Describe all settings of a host: ``madvise, defrag madvise; never: 64K; inherit: 2M``."""
    by_mode: dict[str, list[str]] = {}
    for size in _list_sizes(host):
        by_mode.setdefault(host[_SIZE + size], []).append(size)
    first = {name: host[name] for name in (SETTING, DEFRAG) if name in host}
    sizes = [f"{mode}: {', '.join(sizes)}" for mode, sizes in by_mode.items()]
    return "; ".join([describe_settings(first), *sizes])


_WIDTH = {"never": 0, "madvise": 1, "always": 2}


def combine_modes(
    modes: Sequence[str | None], host: str | None
) -> tuple[str | None, tuple[bool, ...]] | None:
    """Combine the modes of processes that run at once (None: the host's mode): the host's mode to
    set, None to leave it, and for each of them whether ``PR_SET_THP_DISABLE`` is set. None where
    prctl cannot express it: madvise beside always. Pure.
    """
    if not any(modes):
        return None, (False,) * len(modes)
    wanted = [mode or host or "never" for mode in modes]
    widest = max(wanted, key=_WIDTH.__getitem__)
    if widest == "always" and "madvise" in wanted:
        return None
    return widest, tuple(mode == "never" and widest != "never" for mode in wanted)


# What the mode of a process has that has switched THP off for itself.
SWITCHED_OFF = "switched off by the process"


def is_thp_allowed(process: Process) -> bool | None:
    """Whether THP is not switched off for a process (``PR_SET_THP_DISABLE``); None if the kernel
    does not tell.
    """
    enabled = process.read_status().get("THP_enabled")
    return None if enabled is None else enabled == "1"


def describe_process_mode(process: Process, named: Collection[str] = ()) -> str:
    """Describe the mode of a process: the host's, unless THP is switched off for the process; then
    the settings of the host that are ``named``, and sizes whose mode is not the kernel's default.
    """
    host = read_host()
    if (mode := host.get(SETTING)) is None:
        return "absent"
    words = [mode]
    if is_thp_allowed(process) is False and mode != "never":
        words.append(SWITCHED_OFF)
    others = {n: v for n, v in host.items() if n in named and n != SETTING}
    if others := {**others, **list_unusual_sizes(host)}:
        words.append(describe_settings(others))
    return ", ".join(words)
