"""Debian's and Ubuntu's packages: which name of a list this release has."""

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
    """The packages that have a candidate, in the output of ``apt-cache policy``."""
    policies = re.findall(r"^(\S+):\n  Installed: .*\n  Candidate: (.*)$", text, re.MULTILINE)
    return frozenset(name for name, candidate in policies if candidate != "(none)")


class Packages:
    """What this release has of some packages. One question to apt for all of them; none where there
    is no apt.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._known = _list_available(frozenset(names))

    def choose(self, names: list[str]) -> str | None:
        """The first of ``names`` that this release has; the first at all where apt cannot be asked
        or knows none of any.
        """
        if not self._known:
            return names[0]
        return next((name for name in names if name in self._known), None)
