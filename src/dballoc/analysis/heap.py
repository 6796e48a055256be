"""What each variant's server allocated: the heap profiles that a campaign took of starts of their own."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dballoc.analysis.campaign import Campaign
from dballoc.analysis.profiled import profiled
from dballoc.errors import UsageError
from dballoc.profile.load import load as load_profile
from dballoc.profile.model import Profile


@dataclass(frozen=True)
class Seen:
    """A variant under a workload. ``profile`` is None where there is none: ``missing`` says why. ``figures``: as
    :mod:`dballoc.campaign.profiling` keeps them.
    """

    variant: str
    workload: str
    profile: Profile | None
    figures: dict[str, Any]
    missing: str = ""


@dataclass(frozen=True)
class Heaps:
    """By variant and workload."""

    seen: list[Seen]

    def of(self, workload: str) -> dict[str, Seen]:
        """Those with a profile, by variant."""
        return {s.variant: s for s in self.seen if s.workload == workload and s.profile}


def load(directory: Path, campaign: Campaign) -> Heaps | None:
    """From a results directory; None where the experiment asks for no such profile."""
    if campaign.experiment.profile != "heap":
        return None
    trials = directory / "trials"
    return Heaps(
        [_seen(trials / row["directory"] / "heap", row, w) for row, workloads in profiled(campaign) for w in workloads]
    )


def _seen(raw: Path, trial: dict[str, Any], workload: str) -> Seen:
    variant, stem = trial["variant"], raw / f"heap-{workload}"
    for note in (raw / "heap.txt", stem.with_suffix(".txt")):
        if note.exists():
            return Seen(variant, workload, None, {}, note.read_text(encoding="utf-8").strip())
    if trial["outcome"] == "fault":
        return Seen(variant, workload, None, {}, f"its trial ended in a fault: {trial['fault']}")
    try:
        figures = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
        return Seen(variant, workload, load_profile(raw / f"{stem.name}.profile.json.gz"), figures)
    except (OSError, ValueError, UsageError):
        return Seen(variant, workload, None, {}, "its files are not there, or cannot be read")
