"""The journal of the host's settings before dballoc changed them: a file that outlives dballoc and
its guardian.

It is written before a setting is, and removed after the setting was restored, so that even after
``kill -9`` at any moment it has every changed setting. It holds names of settings
(:mod:`dballoc.host.settings.writable_settings`), never paths. Who writes it or restores from it
holds the lock of :mod:`dballoc.host.settings.machine_lock`.
"""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dballoc.host.settings.writable_settings import HostSetting, read_setting, write_setting

JOURNAL = "journal"
_PARTIAL = "journal.partial"
_LARGEST = 1 << 16
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class BadJournal(Exception):
    """The journal is not one that dballoc wrote; the text says why."""


class Entry(NamedTuple):
    """The value of a setting before, and all values that dballoc has written to it since."""

    before: str
    written: tuple[str, ...]


class PutBack(NamedTuple):
    """A setting that was restored to ``before``. ``after``: the value it had been left at."""

    path: str
    after: str
    before: str


def read_journal(directory: int, settings: Mapping[str, HostSetting]) -> dict[str, Entry]:
    """Read the changed settings, by name; none if there is no journal, or it is of an earlier boot.
    Raises BadJournal if it is damaged.
    """
    try:
        journal = os.open(
            JOURNAL, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory
        )
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadJournal(str(error.strerror)) from None
    try:
        status = os.fstat(journal)
        if (
            not stat.S_ISREG(status.st_mode)
            or status.st_uid != os.geteuid()
            or status.st_size > _LARGEST
        ):
            raise BadJournal("it is not a small file of this user")
        data = os.pread(journal, _LARGEST, 0)
    finally:
        os.close(journal)
    try:
        content = json.loads(data)
        boot, entries = content["boot"], content["settings"]
        changed = {
            name: Entry(str(entry["before"]), tuple(entry["written"]))
            for name, entry in entries.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadJournal("it is damaged") from None
    for name, entry in changed.items():
        if name not in settings:
            raise BadJournal(f"it names {name!r}, which dballoc does not set")
        if not {entry.before, *entry.written} <= set(settings[name].values):
            raise BadJournal(f"it has a value that {settings[name].path} does not take")
    return changed if boot == _read_boot_id() else {}


def write_journal(directory: int, entries: Mapping[str, Entry]) -> None:
    """Replace the journal atomically and durably; without entries, remove it."""
    if not entries:
        try:
            os.unlink(JOURNAL, dir_fd=directory)
        except FileNotFoundError:
            pass
        return
    content: dict[str, Any] = {
        "boot": _read_boot_id(),
        "settings": {name: entry._asdict() for name, entry in entries.items()},
    }
    try:
        os.unlink(_PARTIAL, dir_fd=directory)
    except FileNotFoundError:
        pass
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(_PARTIAL, flags, 0o600, dir_fd=directory), "w") as f:
        json.dump(content, f)
        f.flush()
        os.fsync(f.fileno())
    os.rename(_PARTIAL, JOURNAL, src_dir_fd=directory, dst_dir_fd=directory)
    os.fsync(directory)


def change_setting(
    directory: int, settings: Mapping[str, HostSetting], name: str, value: str
) -> None:
    """Write a setting, once the journal has its old value. OSError or BadJournal."""
    setting = settings.get(name)
    if setting is None or value not in setting.values:
        raise OSError(f"dballoc never sets {name} to {value}")
    entries = read_journal(directory, settings)
    entry = entries.get(name) or Entry(read_setting(setting.path), ())
    write_journal(
        directory,
        entries | {name: Entry(entry.before, tuple(dict.fromkeys([*entry.written, value])))},
    )
    write_setting(setting.path, value)


def put_back(directory: int, settings: Mapping[str, HostSetting]) -> list[PutBack]:
    """Restore all settings of the journal, and remove it. A value that somebody else has written
    since stays.

    Raises OSError if a setting cannot be restored, after all others have been; the journal keeps
    that one. Raises BadJournal if it is damaged.
    """
    entries = read_journal(directory, settings)
    restored, failed = [], None
    for name, entry in list(entries.items()):
        path = settings[name].path
        try:
            now = read_setting(path)
            if now in entry.written and now != entry.before:
                write_setting(path, entry.before)
                restored.append(PutBack(path, now, entry.before))
        except OSError as error:
            failed = OSError(f"cannot put {path} back to {entry.before}: {error.strerror}")
        else:
            del entries[name]
    write_journal(directory, entries)
    if failed:
        raise failed
    return restored


def _read_boot_id() -> str:
    """Read the ID of this boot: where /run survives a boot, a journal of an earlier one is void."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
