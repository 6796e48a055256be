"""Load what each variant's server allocated: the heap profiles, for which a campaign starts servers
of their own.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dballoc import readers
from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.tables.profiles import profiled_trials
from dballoc.errors import UsageError
from dballoc.profile.formats.profile_file import load_profile
from dballoc.profile.heap.heap_profile import ALLOCATED, LIVE, STALLED, TIME
from dballoc.profile.model import Profile
from dballoc.profile.profile_tables import VARIANCE

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
    """The figures that :mod:`dballoc.campaign.trials.profiling` stores."""

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
    ``missing`` says why. ``figures``: as :mod:`dballoc.campaign.trials.profiling` stores them.
    """

    variant: str
    workload: str
    profile: Profile | None
    figures: dict[str, Any]
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
            for row, workloads in profiled_trials.list_profiled_trials(campaign)
            for w in workloads
        ]
    )


def _check_heap_values(profile: Profile) -> Profile:
    """Return the profile. Unfit if it lacks a value of a heap, or has an impossible one."""
    missing = {LIVE, LIVE + VARIANCE, ALLOCATED, TIME, STALLED} - {
        value.key for value in profile.values
    }
    if missing or any(
        sample.values[profile.column(LIVE + VARIANCE)] < 0 for sample in profile.samples
    ):
        raise readers.Unfit("not a heap profile")
    return profile


def _load_variant(raw: Path, trial: dict[str, Any], workload: str, directory: Path) -> VariantHeap:
    variant, stem = trial["variant"], raw / f"heap-{workload}"
    for note in (raw / "heap.txt", stem.with_suffix(".txt")):
        if note.exists():
            return VariantHeap(
                variant=variant,
                workload=workload,
                profile=None,
                figures={},
                missing=profiled_trials.read_note(note, directory),
            )
    if trial["outcome"] == "fault":
        return VariantHeap(
            variant=variant,
            workload=workload,
            profile=None,
            figures={},
            missing=f"its trial ended in a fault: {trial['fault']}",
        )
    try:
        text = readers.content(stem.with_suffix(".json"), below=directory)
        figures = readers.document(text, finite=False)
        _Figures.model_validate(figures)
        profile = load_profile(raw / f"{stem.name}.profile.json.gz", directory)
        return VariantHeap(
            variant=variant,
            workload=workload,
            profile=_check_heap_values(profile),
            figures=figures,
        )
    except (readers.Unfit, ValidationError, UsageError):
        return VariantHeap(
            variant=variant,
            workload=workload,
            profile=None,
            figures={},
            missing="its files are missing or unreadable",
        )
