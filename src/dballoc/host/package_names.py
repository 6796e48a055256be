"""Find which package names this release of Debian or Ubuntu has."""

import re
import subprocess
from collections.abc import Iterable
from functools import cache


@cache
def _list_available(names: frozenset[str]) -> frozenset[str] | None:
    try:
        process = subprocess.run(
            ["apt-cache", "policy", *sorted(names)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_policy(process.stdout)


def parse_policy(text: str) -> frozenset[str]:
    """Parse the packages that have a candidate from the output of ``apt-cache policy``."""
    policies = re.findall(r"^(\S+):\n  Installed: .*\n  Candidate: (.*)$", text, re.MULTILINE)
    return frozenset(name for name, candidate in policies if candidate != "(none)")


class Packages:
    """Which of some packages this release has, by one query to apt; unknown without apt."""

    def __init__(self, names: Iterable[str]) -> None:
        self._known = _list_available(frozenset(names))

    def choose(self, names: list[str]) -> str | None:
        """Return the first of ``names`` that this release has, None if it has none of them; simply
        the first where apt is missing or knows no package at all.
        """
        if not self._known:
            return names[0]
        return next((name for name in names if name in self._known), None)
