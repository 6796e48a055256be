"""From figures made elsewhere to an experiment and its trials: the same model and the same tables
as of our own. Pure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dballoc.errors import UsageError
from dballoc.experiment import experiment_file
from dballoc.experiment.model import Experiment
from dballoc.experiment.schedule import Slot
from dballoc.intake.imported_figure import Figure
from dballoc.store.results import TrialRecord

# What a name may not hold; see dballoc.experiment.model.
_OTHER = re.compile(r"[^A-Za-z0-9._+=@-]+")
_LONGEST = 64


@dataclass(frozen=True)
class Assembled:
    """``trials`` in the order of their machines; ``machines``: each with the number of its
    trials.
    """

    experiment: Experiment
    trials: list[tuple[Slot, TrialRecord]]
    machines: list[tuple[str, int]]


def assemble(figures: Sequence[Figure], name: str, baseline: str | None) -> Assembled:
    """Every figure is a trial of one level. The baseline is the first variant where nobody names
    one. UsageError where names of variants or workloads cannot be told apart, and for a baseline
    that is not there.
    """
    variants = _names([f.variant for f in figures], "variant")
    workloads = _names([f.workload for f in figures], "workload")
    base = next(iter(variants.values())) if baseline is None else variants.get(baseline, baseline)
    if base not in variants.values():
        raise UsageError(f"--baseline: no variant {baseline!r}; there are {', '.join(variants)}")
    seconds = [f.seconds for f in figures if f.seconds]
    blocks = {number: i for i, number in enumerate(sorted({f.block for f in figures}), 1)}
    table = {
        "name": plain(name),
        "baseline": base,
        "design": "solo",
        "levels": "fresh",
        "blocks": len(blocks),
        "workloads": list(dict.fromkeys(workloads.values())),
        "threads": sorted({f.threads for f in figures}),
        "warmup_sql": [],
        "time": {
            "warmup": "0s",
            "level": f"{max(2.0, max(seconds, default=2.0)):.3f}s",
            "idle": "0s",
        },
        "variant": [{"name": n} for n in dict.fromkeys(variants.values())],
    }
    machines = list(dict.fromkeys(f.machine for f in figures))
    ordered = sorted(figures, key=lambda f: (machines.index(f.machine), blocks[f.block]))
    trials = []
    for position, f in enumerate(ordered, 1):
        variant = variants[f.variant]
        role: Any = "A1" if variant == base else "V"
        slot = Slot(
            block=blocks[f.block],
            attempt=0,
            position=position,
            variant=variant,
            role=role,
            level=f.threads,
        )
        trials.append((slot, _record(f, workloads[f.workload])))
    counts = [(m, sum(1 for f in figures if f.machine == m)) for m in machines]
    return Assembled(experiment_file.build(table, "the figures"), trials, counts)


def plain(text: str) -> str:
    """As a name may be: what it may not hold becomes a dash."""
    return _OTHER.sub("-", text).strip("-._+=@")[:_LONGEST] or "imported"


def variant_rows(assembled: Assembled) -> list[dict[str, Any]]:
    """For the table ``variant``: of results made elsewhere no more is known than what they are
    called.
    """
    return [
        {
            "name": v.name,
            "allocator": v.name,
            "allocator_version": "",
            "libraries": "[]",
            "environment": "{}",
            "server": "made elsewhere",
            "server_version": "",
            "engine": "",
            "command": "[]",
            "pool_bytes": None,
            "thp": None,
        }
        for v in assembled.experiment.variant
    ]


def _names(words: Sequence[str], what: str) -> dict[str, str]:
    """A name for each word. UsageError where two words would have one."""
    found: dict[str, str] = {}
    for word in dict.fromkeys(words):
        name = plain(word)
        if other := next((w for w, n in found.items() if n == name), None):
            raise UsageError(
                f"{what}s {other!r} and {word!r} would both be called {name!r}; rename one"
            )
        found[word] = name
    return found


def _record(figure: Figure, workload: str) -> TrialRecord:
    seconds = figure.seconds or 0.0
    return TrialRecord(
        trial={
            "started": 0.0,
            "ended": seconds,
            "seconds_planned": seconds,
            "outcome": "ok",
            "rss_peak": figure.rss,
            "sampler_cpu": 0.0,
            "samples": 0,
        },
        steps=[
            {
                "step": 1,
                "kind": "level",
                "workload": workload,
                "threads": figure.threads,
                "t": 0.0,
                "seconds": seconds,
                "tps": figure.tps,
                "qps": figure.qps,
                "p95": figure.p95,
                "p99": figure.p99,
                "rss_peak": figure.rss,
            }
        ],
    )
