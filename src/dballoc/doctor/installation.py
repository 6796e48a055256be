"""What dballoc can do as it is installed here: a plain install, and the portable file, measure
servers and judge nothing.
"""

from dataclasses import dataclass

from dballoc.doctor.finding import Finding


@dataclass(frozen=True, kw_only=True)
class VerbPackages:
    """The ``working`` verbs, those that ``lack`` packages, and the ``remedy``, empty if none do."""

    working: tuple[str, ...]
    lacking: tuple[str, ...]
    remedy: str

    @property
    def can_bench(self) -> bool:
        """Whether it has what comparisons need."""
        return "bench" in self.working


def check_installation(installation: VerbPackages) -> Finding:
    """Say which verbs this installation has. What it lacks is optional."""
    working = ", ".join(installation.working)
    if not installation.lacking:
        return Finding("installation", "ok", f"has all that {working} need")
    measures = "" if installation.can_bench else "; bench --measure-only needs none of it"
    return Finding(
        "installation",
        "note",
        f"has what {working} need, and not what {', '.join(installation.lacking)} need{measures}",
        installation.remedy,
    )
