"""A lock over the host's settings for all runs of dballoc on one machine, and the journal of what
was changed.

A campaign that changes a setting has the lock to itself; those that are only measured under it
share it. It is a ``flock`` that dballoc and its guardian hold together, so that it is free when
both have ended, and not before. Beside it is a note of each holder, locked in the same way, for the
error of those who cannot have it.

It reaches as far as ``/run/dballoc`` does: a container with a ``/run`` of its own has a lock of its
own.
"""

import fcntl
import json
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dballoc.ground.errors import Failure, NotNow, UsageError
from dballoc.host.process.handle import Process
from dballoc.host.settings import settings_journal
from dballoc.host.settings.settings_journal import BadJournal, PutBack
from dballoc.host.settings.writable_settings import HOST_SETTINGS, HostSetting

_LOCK = "lock"
_PUTTING_BACK = "putting-back"
_NOTE = "holder-"

# Seconds that the guardian of a killed dballoc may take to clean up.
_PATIENCE = 60.0


class HeldByRun(NotNow):
    """Another dballoc has the lock."""


class HeldByGuardian(Failure):
    """The dballoc that had the lock has ended, and its guardian still cleans up."""


@dataclass(frozen=True)
class LockPlace:
    """The directory of lock and journal, and the settings they are about. Only tests use another
    than ``THIS``.
    """

    directory: Path = Path("/run/dballoc")
    settings: Mapping[str, HostSetting] = field(default_factory=lambda: HOST_SETTINGS)


THIS_MACHINE = LockPlace()


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A dballoc that has the lock. ``namespace``, ``started``: which process of that PID it is."""

    pid: int
    started: str
    namespace: int
    exclusive: bool
    purpose: str

    @property
    def is_alive(self) -> bool:
        """False if only its guardian is left; one in another PID namespace counts as alive."""
        if self.namespace != _read_pid_namespace():
            return True
        try:
            process = Process.open(self.pid)
        except OSError:
            return False
        return str(process.started) == self.started and not process.has_ended()

    @property
    def words(self) -> str:
        """``dballoc (process 123, results in /x)``."""
        return f"dballoc (process {self.pid}, {self.purpose})"


class Hold:
    """The held lock. ``descriptors``: those that a guardian holds too; ``directory`` is one of
    them.
    """

    def __init__(self, machine: LockPlace, exclusive: bool, directory: int) -> None:
        self.machine = machine
        self.exclusive = exclusive
        self.directory = directory
        self.descriptors = [directory]
        self._note = ""

    def put_back(self) -> list[PutBack]:
        """Restore the changed settings. OSError or BadJournal."""
        return settings_journal.put_back(self.directory, self.machine.settings)

    def release(self) -> None:
        """Unlock; a guardian that still runs holds the lock a little longer."""
        if self._note:
            try:
                os.unlink(self._note, dir_fd=self.directory)
            except OSError:
                pass
        for descriptor in reversed(self.descriptors):
            os.close(descriptor)
        self.descriptors = []

    def take(self, purpose: str, patience: float = 0.0) -> None:
        """Lock, write our note, and restore what an earlier run has left changed. ``patience``:
        seconds to wait for holders that are alive.
        """
        lock = _open_file(self.directory, _LOCK)
        self.descriptors.append(lock)
        began = time.monotonic()
        deadline = began + max(_PATIENCE, patience)
        while not _try_lock(lock, exclusive=self.exclusive):
            blocking = [h for h in list_holders(self.directory) if self.exclusive or h.exclusive]
            alive = [h for h in blocking if h.is_alive]
            if alive and time.monotonic() >= began + patience:
                raise HeldByRun(_format_refusal(alive, self.exclusive))
            # A holder has ended and its guardian is cleaning up, or the doctor holds the lock.
            if time.monotonic() > deadline:
                by = blocking[0].words if blocking else "an unknown process"
                raise HeldByGuardian(
                    f"{self.machine.directory}: still locked by the guardian of {by}, which has "
                    "ended"
                )
            time.sleep(0.05)
        list_holders(self.directory)  # removes the notes of those that were killed
        self._write_note(purpose)
        _put_back_alone(self)

    def _write_note(self, purpose: str) -> None:
        note = Holder(
            pid=os.getpid(),
            started=str(Process.own().started),
            namespace=_read_pid_namespace(),
            exclusive=self.exclusive,
            purpose=purpose,
        )
        name = secrets.token_hex(6)
        descriptor = _open_file(self.directory, f"{name}.partial")
        self.descriptors.append(descriptor)
        _try_lock(descriptor, exclusive=True)
        os.write(descriptor, json.dumps(asdict(note)).encode())
        # It is locked before it has its name: an unlocked note counts as left behind.
        os.rename(
            f"{name}.partial", _NOTE + name, src_dir_fd=self.directory, dst_dir_fd=self.directory
        )
        self._note = _NOTE + name


def hold(
    machine: LockPlace, *, exclusive: bool, purpose: str, patience: float = 0.0
) -> Hold | None:
    """Take the machine's lock, and restore what an earlier run has left changed. ``purpose``: what
    we do, for the error of those who want the lock meanwhile; ``patience``: seconds to wait for
    another run that has it.

    None where this user cannot have a lock and would only share it. HeldByRun that names the
    holder if another run has it, HeldByGuardian if only the guardian of one has; UsageError if the
    directory cannot be trusted.
    """
    try:
        directory = open_directory(machine.directory, make=True)
    except OSError as error:
        if exclusive:
            raise UsageError(
                f"{machine.directory}: cannot be made or opened: {error.strerror}; dballoc "
                "changes host settings only under the lock in it: leave thp out, run as root, or "
                "make it a directory of root's with mode 0700"
            ) from None
        return None
    held = Hold(machine, exclusive, directory)
    try:
        held.take(purpose, patience)
    except OSError as error:
        held.release()
        raise UsageError(f"{machine.directory}: cannot take the machine's lock: {error}") from None
    except BaseException:
        held.release()
        raise
    return held


def put_back_leftovers(machine: LockPlace = THIS_MACHINE) -> list[PutBack]:
    """Restore what a run that was killed together with its guardian has left changed. Nothing
    happens while a run has the exclusive lock, or if this user cannot read the journal. Raises
    UsageError if the journal is damaged or a setting cannot be restored.
    """
    try:
        directory = open_directory(machine.directory, make=False)
    except OSError:
        return []
    looking = Hold(machine, False, directory)
    try:
        lock = _open_file(directory, _LOCK)
        looking.descriptors.append(lock)
        return _put_back_alone(looking) if _try_lock(lock, exclusive=False) else []
    except OSError as error:
        raise UsageError(
            f"{machine.directory}: cannot restore what an earlier run changed: {error}"
        ) from None
    finally:
        looking.release()


def changed_by_others(machine: LockPlace = THIS_MACHINE) -> list[tuple[Holder, str]]:
    """List the runs with an exclusive lock, each with a text of what it has changed."""
    try:
        directory = open_directory(machine.directory, make=False)
    except OSError:
        return []
    try:
        entries = settings_journal.read_journal(directory, machine.settings)
        words = ", ".join(
            f"{machine.settings[name].path} (it was {entry.before})"
            for name, entry in entries.items()
        )
        return [(holder, words) for holder in list_holders(directory) if holder.exclusive]
    except BadJournal:
        return []
    finally:
        os.close(directory)


def open_directory(path: Path, *, make: bool) -> int:
    """Open the directory of the lock, which must be this user's alone. Raises OSError if there is
    none for us, UsageError if it cannot be trusted.
    """
    if make:
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            pass
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:  # with O_DIRECTORY, also for a link (open(2))
        raise UsageError(
            f"{path}: not a directory, but dballoc keeps its lock there; remove it"
        ) from None
    status = os.fstat(directory)
    us = os.geteuid()
    if status.st_uid == us and not status.st_mode & 0o022:
        os.fchmod(directory, 0o700)
        return directory
    os.close(directory)
    if status.st_uid != us and status.st_uid == 0:
        raise PermissionError(13, "it is root's")
    whose = (
        f"belongs to user {status.st_uid}" if status.st_uid != us else "may be written by others"
    )
    raise UsageError(f"{path}: {whose}, so a lock in it cannot be trusted; remove it")


def list_holders(directory: int) -> list[Holder]:
    """List the runs that have the lock, or whose guardian is still cleaning up. Notes of other runs
    are removed.
    """
    current = []
    for name in sorted(os.listdir(directory)):
        if name.startswith(_NOTE) and (holder := _read_holder(directory, name)):
            current.append(holder)
    return current


def _read_holder(directory: int, name: str) -> Holder | None:
    try:
        note = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory
        )
    except OSError:
        return None
    try:
        if _try_lock(note, exclusive=False):
            os.unlink(name, dir_fd=directory)
            return None
        return Holder(**json.loads(os.pread(note, 4096, 0)))
    except (OSError, ValueError, TypeError):
        return None
    finally:
        os.close(note)


def _put_back_alone(held: Hold) -> list[PutBack]:
    """Restore settings while no other holder does. Called with the lock held, when nobody else has
    it exclusively, so that the journal is a dead run's.
    """
    turn = _open_file(held.directory, _PUTTING_BACK)
    deadline = time.monotonic() + _PATIENCE
    try:
        while not _try_lock(turn, exclusive=True):
            if time.monotonic() > deadline:
                raise OSError(f"another process has been restoring settings for {_PATIENCE:.0f} s")
            time.sleep(0.05)
        return held.put_back()
    except BadJournal as error:
        raise UsageError(
            f"{held.machine.directory / settings_journal.JOURNAL}: cannot be read: {error}; an "
            f"earlier run may have left settings in {_find_directory(held.machine)} changed: "
            "restore them, and remove the file"
        ) from None
    finally:
        os.close(turn)


def _find_directory(machine: LockPlace) -> str:
    """Return the directory that all settings are in."""
    return os.path.commonpath([os.path.dirname(s.path) for s in machine.settings.values()])


def _format_refusal(alive: list[Holder], exclusive: bool) -> str:
    names = " and ".join(holder.words for holder in alive)
    pids = " ".join(str(holder.pid) for holder in alive)
    if exclusive:
        why = "this campaign switches the machine's THP, under which others are being measured"
        return (
            f"{why}: {names}; wait until they end, stop them (kill {pids}), or leave out the "
            "variants with thp (tune: --no-thp)"
        )
    return (
        f"{names} switches this machine's THP, under which this campaign would be measured; "
        f"wait, or stop it (kill {pids})"
    )


def _open_file(directory: int, name: str) -> int:
    return os.open(
        name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory
    )


def _try_lock(descriptor: int, *, exclusive: bool) -> bool:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_pid_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino
