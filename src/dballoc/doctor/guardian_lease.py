"""Check that what dballoc starts on this host ends when whoever asked for it is out of reach."""

import contextlib
import os
import time
from pathlib import Path

from dballoc.doctor.finding import Finding
from dballoc.errors import Failure
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Custody, GuardianEnded, Lease

_NAME = "guardian"
_REMEDY = (
    "let processes here start others, become their subreaper, and kill them: see the seccomp and "
    "AppArmor profiles, or run dballoc outside of this sandbox"
)
# Longer than this check: it is the lease's other end that goes. Seconds.
_LEASE = 30.0
_PATIENCE = 5.0


def check_guardian() -> Finding:
    """Have a guardian hold a process and a directory, close its lease, and look whether both go."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    with os.fdopen(reader), os.fdopen(writer, "wb") as driver:
        try:
            with Custody(lease=Lease(reader, _LEASE)) as custody:
                place = directories.make_run_directory(custody.scratch)
                child = custody.spawn(["sleep", "60"], dict(os.environ), Path(os.devnull))
                driver.close()
                began = time.monotonic()
                with contextlib.suppress(GuardianEnded):
                    child.wait(_PATIENCE)
                seconds = time.monotonic() - began
        except (Failure, OSError) as error:
            return Finding(_NAME, "missing", f"cannot hold a process: {error}", _REMEDY)
    if seconds >= _PATIENCE or Path(f"/proc/{child.pid}").exists() or place.exists():
        text = f"what it holds does not end within {_PATIENCE:.0f} s of a loss of contact"
        return Finding(_NAME, "missing", text, _REMEDY)
    text = f"ends what it holds within {max(seconds, 0.1):.1f} s of a loss of contact"
    return Finding(_NAME, "ok", text)
