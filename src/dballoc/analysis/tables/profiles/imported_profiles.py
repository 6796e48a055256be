"""Load the profiles of imported results: call stacks that other programs counted."""

import json
from dataclasses import dataclass
from pathlib import Path

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.tables.profiles.contention import Contention, ContentionProfiles
from dballoc.analysis.tables.profiles.heap_profiles import Heaps
from dballoc.errors import UsageError
from dballoc.profile.formats.profile_file import load_profile
from dballoc.profile.model import Profile
from dballoc.store.campaign_facts import IMPORTED_PROFILES


@dataclass(frozen=True, kw_only=True)
class ImportedProfile:
    """A profile of a variant under a workload at a level, on a machine. ``counts``: what its
    numbers count: waits, waited (seconds), wakeups, cpu. ``profile`` is None where its file cannot
    be read.
    """

    machine: str
    variant: str
    workload: str
    threads: int
    counts: str
    profile: Profile | None


@dataclass(frozen=True)
class ImportedProfiles:
    """All profiles of imported results, in the order of the files."""

    profiles: list[ImportedProfile]

    @property
    def places(self) -> list[tuple[str, str, int]]:
        """The machines, workloads and levels that have profiles."""
        return list(dict.fromkeys((p.machine, p.workload, p.threads) for p in self.profiles))

    def of(self, place: tuple[str, str, int], counts: str) -> dict[str, Profile]:
        """Return the profiles of one of :attr:`places` that count this, by variant."""
        return {
            p.variant: p.profile
            for p in self.profiles
            if (p.machine, p.workload, p.threads) == place and p.counts == counts and p.profile
        }

    def of_machine(self, machine: str, threads: int | None) -> Contention:
        """Return a machine's waits as those of a campaign: of each workload at this level, or at
        the highest that has profiles.
        """
        levels: dict[str, list[int]] = {}
        for name, workload, level in self.places:
            if name == machine:
                levels.setdefault(workload, []).append(level)
        watched = []
        for workload, workload_levels in levels.items():
            level = threads if threads in workload_levels else max(workload_levels)
            watched += self.list_waits((machine, workload, level))
        return Contention(watched, {})

    def list_waits(self, place: tuple[str, str, int]) -> list[ContentionProfiles]:
        """Return the waits of each variant, counted or, where they were not, timed; with the
        wake-ups.
        """
        wakeups = self.of(place, "wakeups")
        return [
            ContentionProfiles(
                variant=variant,
                workload=place[1],
                switches=profile,
                wakeups=wakeups.get(variant),
            )
            for variant, profile in (self.of(place, "waited") | self.of(place, "waits")).items()
        ]


def load_imported_profiles(directory: Path, campaign: Campaign) -> ImportedProfiles | None:
    """Load the profiles from a results directory; None where there are none."""
    rows = json.loads(campaign.facts.get("imported", "{}")).get("profiles", [])
    if not rows:
        return None
    return ImportedProfiles(
        [
            ImportedProfile(
                machine=row["machine"],
                variant=row["variant"],
                workload=row["workload"],
                threads=row["threads"],
                counts=row["counts"],
                profile=_load(directory / IMPORTED_PROFILES.format(number), directory),
            )
            for number, row in enumerate(rows, 1)
        ]
    )


def _load(path: Path, directory: Path) -> Profile | None:
    try:
        profile = load_profile(path, directory)
    except UsageError:
        return None
    return profile if profile.samples and profile.total(profile.values[0].key) > 0 else None


# What was recorded beside the trials of a campaign, or imported with its figures.
Profiles = Contention | Heaps | ImportedProfiles | None
