"""Options that a server does not know, or cannot read: told by the server itself, before anything is started."""

import os
import re
import subprocess
from typing import Any

from dballoc.errors import UsageError
from dballoc.host.user import ServerUser
from dballoc.servers.build import Build
from dballoc.servers.defaults import complaint
from dballoc.servers.options import arguments

# MySQL before 8.0.16 does not know --validate-config. Other things can go wrong under --help that do not at a real
# start (a data directory that is not there).
_REFUSAL = re.compile(
    r"unknown (variable|option|suffix)|ambiguous option|(while setting|wrong|invalid) value"
    r"|requires an argument|doesn't take an argument",
    re.IGNORECASE,
)


def check(build: Build, options: dict[str, str], user: ServerUser, where: str) -> None:
    """UsageError, in the server's words, if it does not take these options. It takes it 50 ms."""
    who = user.as_spawn()
    how: dict[str, Any] = {"user": who["uid"], "group": who["gid"], "extra_groups": []} if who else {}
    # Plugins bring options of their own, and messages come from where they are.
    places = [f"--lc-messages-dir={build.share}", *([f"--plugin-dir={build.plugins}"] if build.plugins else [])]
    try:
        done = subprocess.run(
            [os.fspath(build.executable), "--no-defaults", *places, *arguments(options), *build.entry["validate"]],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", timeout=60, check=False, cwd="/",
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin")}, **how,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return  # the trial will tell
    refusals = "\n".join(line for line in done.stderr.splitlines() if _REFUSAL.search(line) and "validate-config" not in line)
    if done.returncode != 0 and refusals:
        raise UsageError(f"{where}: {build.title} does not take its options: {complaint(refusals)}")
