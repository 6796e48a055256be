"""Load what each variant's server waited for: the profiles that a campaign took after it had
measured.
"""

from dataclasses import dataclass
from pathlib import Path

from dballoc import readers
from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.tables.profiles import profiled_trials
from dballoc.errors import UsageError
from dballoc.profile.contention import jemalloc_mutexes
from dballoc.profile.contention.jemalloc_mutexes import Mutex
from dballoc.profile.formats.profile_file import load_profile
from dballoc.profile.model import Profile

# The bytes of a server's log that are read.
_LOG = 64 * readers.MIB


@dataclass(frozen=True, kw_only=True)
class ContentionProfiles:
    """The profiles of a variant under a workload. ``switches`` is None where there is no profile;
    ``missing`` says why.
    """

    variant: str
    workload: str
    switches: Profile | None
    wakeups: Profile | None
    missing: str = ""


@dataclass(frozen=True)
class Contention:
    """``watched``: the profiles by variant and workload; ``mutexes``: by variant, its malloc's own
    statistics of its mutexes at the trial's end.
    """

    watched: list[ContentionProfiles]
    mutexes: dict[str, list[Mutex]]

    def of(self, workload: str) -> dict[str, ContentionProfiles]:
        """Return the profiles under a workload, by variant."""
        return {w.variant: w for w in self.watched if w.workload == workload and w.switches}


def load_contention(directory: Path, campaign: Campaign) -> Contention | None:
    """Load the profiles from a results directory; None where the experiment asks for no such
    profile.
    """
    if campaign.experiment.profile != "contention":
        return None
    watched: list[ContentionProfiles] = []
    mutexes: dict[str, list[Mutex]] = {}
    for row, workloads in profiled_trials.list_profiled_trials(campaign):
        raw = directory / "trials" / row["directory"]
        watched += [_load_profiles(raw, row, name, directory) for name in workloads]
        if contended := _read_mutexes(raw / "server.log", directory):
            mutexes[row["variant"]] = contended
    return Contention(watched, mutexes)


def _load_profiles(
    raw: Path, trial: dict[str, object], workload: str, directory: Path
) -> ContentionProfiles:
    variant = str(trial["variant"])
    files = [raw / f"contention-{workload}{part}.profile.json.gz" for part in ("", "-wakeups")]
    if not files[0].exists():
        return ContentionProfiles(
            variant=variant,
            workload=workload,
            switches=None,
            wakeups=None,
            missing=_explain_missing(raw / f"contention-{workload}.txt", trial, directory),
        )
    try:
        return ContentionProfiles(
            variant=variant,
            workload=workload,
            switches=load_profile(files[0], directory),
            wakeups=load_profile(files[1], directory) if files[1].exists() else None,
        )
    except UsageError:
        return ContentionProfiles(
            variant=variant,
            workload=workload,
            switches=None,
            wakeups=None,
            missing="its file cannot be read",
        )


def _explain_missing(note: Path, trial: dict[str, object], directory: Path) -> str:
    if note.exists():
        return profiled_trials.read_note(note, directory)
    return (
        f"its trial ended in a fault: {trial['fault']}"
        if trial["outcome"] == "fault"
        else "its file is missing"
    )


def _read_mutexes(log: Path, directory: Path) -> list[Mutex]:
    try:
        lines = readers.text(log, _LOG, errors="replace", below=directory).splitlines(keepends=True)
        return [
            mutex for mutex in jemalloc_mutexes.parse_mutexes(lines) if mutex.waited or mutex.spun
        ]
    except readers.Unfit:
        return []
