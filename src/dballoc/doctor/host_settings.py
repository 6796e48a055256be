"""Check the host settings that runs have changed: put back after a killed run, left alone during a
live one.
"""

import os

from dballoc.doctor.finding import Finding, finding_from_error
from dballoc.errors import UsageError
from dballoc.host.settings import machine_lock
from dballoc.host.settings.machine_lock import Machine

_NAME = "host settings"


def check_host_settings(machine: Machine = machine_lock.THIS_MACHINE) -> Finding:
    """Restore the settings that a run left changed because it was killed together with its
    guardian. The doctor changes nothing else.
    """
    try:
        os.close(machine_lock.open_directory(machine.directory, make=False))
        restored = machine_lock.put_back_leftovers(machine)
    except FileNotFoundError:
        return Finding(_NAME, "ok", "no run has left one changed")
    except OSError:
        text = "only root can see whether a killed run has left settings changed"
        return Finding(_NAME, "note", text, "run doctor as root")
    except UsageError as error:
        return finding_from_error(_NAME, "warn", error)
    if restored:
        text = ", ".join(
            f"{was.path} put back from {was.after} to {was.before}" for was in restored
        )
        return Finding(_NAME, "note", f"{text}: a killed run had left it changed")
    if changing := machine_lock.changed_by_others(machine):
        text = " and ".join(
            f"{holder.words} has changed {changed}" for holder, changed in changing if changed
        )
        return Finding(
            _NAME,
            "ok",
            f"{text or 'a running campaign may change them'}; it restores them at its end",
        )
    return Finding(_NAME, "ok", "no run has left one changed")
