"""Assemble imported figures into an experiment and its trials: in the same model and tables as
those of a campaign. Pure.
"""

import csv
import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dballoc import catalogue
from dballoc.experiment import experiment_file
from dballoc.experiment.designs import Design
from dballoc.experiment.model import Experiment
from dballoc.experiment.schedule import Slot
from dballoc.ground.errors import UsageError
from dballoc.intake.imported_figure import ImportedFigure
from dballoc.store.results import TrialRecord
from dballoc.store.rows import MeasuredTrial, StepRow, VariantRow

# Characters that a name may not have; see dballoc.experiment.model.
_FORBIDDEN = re.compile(r"[^A-Za-z0-9._+=@-]+")
# The longest name, letters.
LONGEST = 64
# The level that stands for an unstated number of clients (ImportedFacts.clients_stated).
_UNSTATED = 1


@dataclass(frozen=True, kw_only=True)
class Assembled:
    """An experiment and its trials. ``trials`` in the order of their machines; ``machines``: each
    with the number of its trials; ``private``: the most private bytes, by the number of the trial;
    ``variants``, ``workloads``: their names by what the files call them; ``clients_stated``,
    ``relative_to``: as :class:`dballoc.store.facts.ImportedFacts` has them.
    """

    experiment: Experiment
    trials: list[tuple[Slot, TrialRecord]]
    machines: list[tuple[str, int]]
    private: Mapping[int, int]
    variants: Mapping[str, str]
    workloads: Mapping[str, str]
    clients_stated: bool
    relative_to: str | None


def assemble_campaign(
    figures: Sequence[ImportedFigure], name: str, baseline: str | None, published: str | None = None
) -> Assembled:
    """Make each figure a trial of one level; the figures are checked. ``baseline``: the first
    variant if None; ``published``: the published figures that they repeat. Raises UsageError if
    names of variants or workloads become the same, or if there is no such baseline, or no such
    published variant.
    """
    variants = _assign_names([f.variant for f in figures], "variant")
    workloads = _assign_names([f.workload for f in figures], "workload")
    base = next(iter(variants.values())) if baseline is None else variants.get(baseline, baseline)
    if base not in variants.values():
        raise UsageError(f"--baseline: no variant {baseline!r}; there are {', '.join(variants)}")
    seconds = [f.seconds for f in figures if f.seconds]
    blocks = {number: i for i, number in enumerate(sorted({f.block for f in figures}), 1)}
    table = {
        "name": make_name(name),
        "baseline": base,
        "design": Design.SOLO.value,
        "levels": "fresh",
        "blocks": len(blocks),
        "workloads": list(dict.fromkeys(workloads.values())),
        "threads": sorted({f.threads or _UNSTATED for f in figures}),
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
            level=f.threads or _UNSTATED,
        )
        trials.append((slot, _build_record(f, workloads[f.workload])))
    if published is not None:
        check_published(published, set(variants.values()), set(workloads.values()))
        table["published"] = published
    return Assembled(
        experiment=experiment_file.build_experiment(table, "the figures"),
        trials=trials,
        machines=[(m, sum(1 for f in figures if f.machine == m)) for m in machines],
        private={i: f.private for i, f in enumerate(ordered, 1) if f.private is not None},
        variants=variants,
        workloads=workloads,
        clients_stated=figures[0].threads is not None,
        relative_to=None if (to := figures[0].relative_to) is None else variants[to],
    )


def check_published(name: str, variants: set[str], workloads: set[str]) -> None:
    """Check that published figures have some of the variants and workloads. UsageError, with all
    the names, if not, or if there are no such figures.
    """
    _, figures = catalogue.look_up(catalogue.published(), name, "published figures")
    cells = list(csv.DictReader(figures.splitlines()))
    for column, kind, names in (
        ("variant", "variant", variants),
        ("workload", "workload", workloads),
    ):
        expected = {cell[column] for cell in cells if cell[column]}
        if expected and not expected & names:
            raise UsageError(
                f"--published {name}: no {kind} of its figures ({', '.join(sorted(expected))}) is "
                f"among the imported ({', '.join(sorted(names))}); give them these names, in the "
                f"files or by [{kind}s] in import.toml"
            )


def make_name(text: str) -> str:
    """Return the text as a valid name: letters lose their accents, other forbidden characters
    become dashes. Where letters of other scripts are lost, a part of the text's SHA-256 keeps it
    apart from others.
    """
    plain = _FORBIDDEN.sub("-", _remove_accents(text)).strip("-._+=@")
    if not has_other_letters(text):
        return plain[:LONGEST] or "imported"
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
    return f"{plain[: LONGEST - 9] or 'imported'}-{digest}"


def has_other_letters(text: str) -> bool:
    """Whether a text has letters or digits that a name may not have, even without accents."""
    return any(letter.isalnum() and not letter.isascii() for letter in _remove_accents(text))


def _remove_accents(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def list_variant_rows(assembled: Assembled) -> list[VariantRow]:
    """Return the rows of the table ``variant``: of imported results no more is known than the
    variants' names.
    """
    return [
        VariantRow(
            name=v.name,
            allocator=v.name,
            allocator_version="",
            libraries="[]",
            environment="{}",
            server="made elsewhere",
            server_version="",
            engine="",
            command="[]",
        )
        for v in assembled.experiment.variant
    ]


def _assign_names(words: Sequence[str], kind: str) -> dict[str, str]:
    """Return a name for each word. Raises UsageError where two words would have the same."""
    names: dict[str, str] = {}
    for word in dict.fromkeys(words):
        name = make_name(word)
        if other := next((w for w, n in names.items() if n == name), None):
            raise UsageError(
                f"{kind}s {other!r} and {word!r} would both be called {name!r}; rename one"
            )
        names[word] = name
    return names


def _build_record(figure: ImportedFigure, workload: str) -> TrialRecord:
    seconds = figure.seconds or 0.0
    return TrialRecord(
        trial=MeasuredTrial(
            started=0.0,
            ended=seconds,
            seconds_planned=seconds,
            outcome="ok",
            rss_start=figure.rss_start,
            rss_peak=figure.rss,
        ),
        rows=[
            StepRow(
                step=1,
                kind="level",
                workload=workload,
                threads=figure.threads or _UNSTATED,
                t=0.0,
                seconds=seconds,
                tps=figure.tps,
                qps=figure.qps,
                p95=figure.p95,
                p99=figure.p99,
                rss_start=figure.rss_start,
                rss_mean=figure.rss_mean,
                rss_peak=figure.rss,
                rss_end=figure.rss_end,
            )
        ],
    )
