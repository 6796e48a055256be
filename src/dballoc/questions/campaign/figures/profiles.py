"""Load the profiles that stand beside a campaign's figures: what each variant's server waited for,
what it allocated, and the call stacks that other programs counted.
"""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.profile.contention import jemalloc_mutexes
from dballoc.profile.contention.jemalloc_mutexes import Mutex
from dballoc.profile.formats.profile_file import load_profile
from dballoc.profile.heap.heap_profile import ALLOCATED, LIVE, STALLED, TIME
from dballoc.profile.model import Profile
from dballoc.profile.profile_tables import VARIANCE
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.store.facts import IMPORTED_PROFILES, ProfilePlace

# The characters of a note that are shown.
_LONGEST = 2000


def list_profiled_trials(campaign: Campaign) -> list[tuple[dict[str, Any], list[str]]]:
    """Return the row and the workloads of each profiled trial
    (:func:`dballoc.experiment.trial_steps.is_profiled`), in the order of the variants.
    """
    rows = campaign.trial.filter(
        "counted",
        pl.col("role") != "A2",
        pl.col("level").is_in([None, campaign.experiment.profiled_level], nulls_equal=True),
        block=1,
    )
    ordered = sorted(
        rows.iter_rows(named=True), key=lambda row: campaign.names.index(row["variant"])
    )
    return [
        (row, workloads)
        for row in ordered
        if (workloads := campaign.experiment.list_profiled(row["workload"]))
    ]


def read_note(path: Path, directory: Path) -> str:
    """Read the note that a trial left in a results directory in place of a profile; where it cannot
    be read, say why.
    """
    try:
        return readers.text(path, errors="replace", below=directory).strip()[:_LONGEST]
    except readers.Unfit as error:
        return f"{path.name}: {error}"


# The bytes of a server's log that are read.
_LOG = 64 * readers.MIB


@dataclass(frozen=True, kw_only=True)
class ContentionProfiles:
    """The profiles of a variant under a workload. ``switches`` is None where there is no profile;
    ``missing`` says why.
    """

    variant: str
    workload: str
    switches: Profile | None = None
    wakeups: Profile | None = None
    missing: str = ""


@dataclass(frozen=True)
class CampaignContention:
    """``watched``: the profiles by variant and workload; ``mutexes``: by variant, its malloc's own
    statistics of its mutexes at the trial's end.
    """

    watched: list[ContentionProfiles]
    mutexes: dict[str, list[Mutex]]

    def of(self, workload: str) -> dict[str, ContentionProfiles]:
        """Return the profiles under a workload, by variant."""
        return {w.variant: w for w in self.watched if w.workload == workload and w.switches}


def load_contention(directory: Path, campaign: Campaign) -> CampaignContention | None:
    """Load the profiles from a results directory; None where the experiment asks for no such
    profile.
    """
    if campaign.experiment.profile != "contention":
        return None
    watched: list[ContentionProfiles] = []
    mutexes: dict[str, list[Mutex]] = {}
    for row, workloads in list_profiled_trials(campaign):
        raw = directory / "trials" / row["directory"]
        watched += [_load_profiles(raw, row, name, directory) for name in workloads]
        if contended := _read_mutexes(raw / "server.log", directory):
            mutexes[row["variant"]] = contended
    return CampaignContention(watched, mutexes)


def _load_profiles(
    raw: Path, trial: dict[str, object], workload: str, directory: Path
) -> ContentionProfiles:
    variant = str(trial["variant"])
    files = [raw / f"contention-{workload}{part}.profile.json.gz" for part in ("", "-wakeups")]
    if not files[0].exists():
        why = _explain_missing(raw / f"contention-{workload}.txt", trial, directory)
        return ContentionProfiles(variant=variant, workload=workload, missing=why)
    try:
        return ContentionProfiles(
            variant=variant,
            workload=workload,
            switches=load_profile(files[0], directory),
            wakeups=load_profile(files[1], directory) if files[1].exists() else None,
        )
    except UsageError:
        why = "its file cannot be read"
        return ContentionProfiles(variant=variant, workload=workload, missing=why)


def _explain_missing(note: Path, trial: dict[str, object], directory: Path) -> str:
    if note.exists():
        return read_note(note, directory)
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


_Amount = Annotated[float, Field(ge=0, le=1e18)]
_Count = Annotated[int, Field(ge=0, lt=2**63)]


class _Size(BaseModel):
    """A row of :mod:`dballoc.profile.heap.malloc_latency`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    operation: str
    sizes: Annotated[list[Annotated[int, Field(ge=0, le=2**64)]], Field(min_length=2, max_length=2)]
    calls: _Amount
    timed: _Count
    mean: _Amount
    p50: _Amount
    p99: _Amount
    longest: _Amount


class _Malloc(BaseModel):
    """The summary of :mod:`dballoc.profile.heap.malloc_latency`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    seconds: _Amount
    share: _Amount | None
    stalls: _Amount
    stalled_seconds: _Amount
    timed: _Count


class _Figures(BaseModel):
    """The figures that :mod:`dballoc.campaign.trial.profiling` stores."""

    model_config = ConfigDict(extra="allow", strict=True)

    seconds: _Amount
    live: _Amount
    live_error: _Amount
    allocated: _Amount
    allocations: _Amount
    malloc: _Malloc
    sizes: Annotated[list[_Size], Field(max_length=1000)]


@dataclass(frozen=True, kw_only=True)
class VariantHeap:
    """The heap profile of a variant under a workload. ``profile`` is None where there is none;
    ``missing`` says why. ``figures``: as :mod:`dballoc.campaign.trial.profiling` stores them.
    """

    variant: str
    workload: str
    profile: Profile | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    missing: str = ""


@dataclass(frozen=True)
class Heaps:
    """The heap profiles by variant and workload."""

    profiles: list[VariantHeap]

    def of(self, workload: str) -> dict[str, VariantHeap]:
        """Return the profiles under a workload, by variant."""
        return {s.variant: s for s in self.profiles if s.workload == workload and s.profile}


def load_heap_profiles(directory: Path, campaign: Campaign) -> Heaps | None:
    """Load the profiles from a results directory; None where the experiment asks for no such
    profile.
    """
    if campaign.experiment.profile != "heap":
        return None
    trials = directory / "trials"
    return Heaps(
        [
            _load_variant(trials / row["directory"] / "heap", row, w, directory)
            for row, workloads in list_profiled_trials(campaign)
            for w in workloads
        ]
    )


def _check_heap_values(profile: Profile) -> Profile:
    """Return the profile. Raises Unfit if it lacks a value of a heap, or has an impossible one."""
    missing = {LIVE, LIVE + VARIANCE, ALLOCATED, TIME, STALLED} - {
        value.key for value in profile.values
    }
    if missing or any(
        sample.values[profile.column(LIVE + VARIANCE)] < 0 for sample in profile.samples
    ):
        raise readers.Unfit("not a heap profile")
    return profile


def _load_variant(raw: Path, trial: dict[str, Any], workload: str, directory: Path) -> VariantHeap:
    make = partial(VariantHeap, variant=trial["variant"], workload=workload)
    stem = raw / f"heap-{workload}"
    for note in (raw / "heap.txt", stem.with_suffix(".txt")):
        if note.exists():
            return make(missing=read_note(note, directory))
    if trial["outcome"] == "fault":
        return make(missing=f"its trial ended in a fault: {trial['fault']}")
    try:
        text = readers.content(stem.with_suffix(".json"), below=directory)
        figures = readers.document(text, finite=False)
        _Figures.model_validate(figures)
        profile = load_profile(raw / f"{stem.name}.profile.json.gz", directory)
        return make(profile=_check_heap_values(profile), figures=figures)
    except (readers.Unfit, ValidationError, UsageError):
        return make(missing="its files are missing or unreadable")


@dataclass(frozen=True, kw_only=True)
class ImportedProfile(ProfilePlace):
    """A profile of a variant under a workload at a level, on a machine. ``profile`` is None where
    its file cannot be read.
    """

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

    def of_machine(self, machine: str, threads: int | None) -> CampaignContention:
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
        return CampaignContention(watched, {})

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
    imported = campaign.facts.imported
    if imported is None or not imported.profiles:
        return None
    return ImportedProfiles(
        [
            ImportedProfile(
                **vars(place),
                profile=_load(directory / IMPORTED_PROFILES.format(number), directory),
            )
            for number, place in enumerate(imported.profiles, 1)
        ]
    )


def _load(path: Path, directory: Path) -> Profile | None:
    try:
        profile = load_profile(path, directory)
    except UsageError:
        return None
    return profile if profile.samples and profile.total(profile.values[0].key) > 0 else None


# What was recorded beside the trials of a campaign, or imported with its figures.
Profiles = CampaignContention | Heaps | ImportedProfiles | None
