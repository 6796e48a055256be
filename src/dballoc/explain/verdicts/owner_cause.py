"""What an owner that has much of RSS has it for, and which setting bounds it: the memory instrument
that counts most of it, by name. Pure; what they are: causes.toml; thresholds: ``[owner]`` of
verdicts.toml.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from dballoc.catalogue import causes
from dballoc.evidence.model import Evidence
from dballoc.explain.ledger.ledger_line import LedgerLine
from dballoc.explain.verdicts.verdict import Case, MemoryVerdict
from dballoc.ground.numbers import listing, percent, with_unit

_INSTRUMENT = "memory/"
_UNKNOWN: Mapping[str, Any] = {
    "of": "the server has no more on it",
    "bounds": [],
    "counts": [],
    "remedies": [],
}


@dataclass(frozen=True, kw_only=True)
class Cause:
    """``instrument``: the one that counts most of an owner's memory, None if the owner itself says
    what it is; ``of``: what that is, in words; ``bounds``: variables with their values;
    ``evidence``: figures; ``remedies``: what to do, the best first; ``is_fine``: whether it is
    normal.
    """

    instrument: str | None
    of: str
    bounds: list[str]
    evidence: list[str]
    remedies: list[str]
    is_fine: bool

    @property
    def name(self) -> str:
        """The cause in words, with what bounds it."""
        bounds = (
            f"; {listing(self.bounds)} bound{'' if self.bounds[1:] else 's'} it"
            if self.bounds
            else ""
        )
        if self.instrument is None:
            return f"{self.of}{bounds}"
        return f"most of it is {self.instrument.removeprefix(_INSTRUMENT)}: {self.of}{bounds}"


def judge_owners(case: Case, covered: Collection[str]) -> list[MemoryVerdict]:
    """Return a verdict for each owner that has much of RSS. ``covered``: owners that other verdicts
    speak of.
    """
    verdicts = []
    for line in sorted(case.ledger.lines, key=lambda line: -line.resident):
        if line.owner in covered or not case.exceeds(line.resident, "owner"):
            continue
        cause = find_cause(line, case.evidence, case.limits["owner"]["most"])
        if cause is None or (cause.is_fine and not case.exceeds(line.resident, "owner", "fine")):
            continue
        verdicts.append(
            MemoryVerdict(
                key="owner",
                level="fine" if cause.is_fine else "notice",
                headline=f"{_capitalize(line.owner)}: {with_unit(line.resident)}, "
                f"{percent(line.resident / case.rss, 0)} of RSS; {cause.name}",
                evidence=[*filter(None, [line.note, line.describe_bounds()]), *cause.evidence],
                remedies=cause.remedies,
                bytes=line.resident,
            )
        )
    return verdicts


def find_cause(line: LedgerLine, evidence: Evidence, most: float) -> Cause | None:
    """Return what a line is for; None if the catalogue does not know its owner. ``most``: an
    instrument with that share of what was asked for is the cause.
    """
    catalogue = causes()
    owner = _find_entry(line.owner, catalogue["owners"])
    counted = [(event, size) for event, size in line.parts if event.startswith(_INSTRUMENT)]
    event, size = max(counted, key=lambda part: part[1], default=("", 0))
    shown = [f"{name} {number:,} bytes" for name, number in line.parts if not _is_session(name)]
    counting = event if event and size >= most * line.size else None
    if counting and not (owner or {}).get("exact"):
        entry = _find_entry(counting, catalogue["instruments"]) or _UNKNOWN
    elif owner:
        entry, counting = owner, None
    else:
        return None
    figures = evidence.figures
    return Cause(
        instrument=counting,
        of=entry["of"],
        bounds=[f"{name} (now {figures[name]:,})" for name in entry["bounds"] if name in figures],
        evidence=[
            *shown[:3],
            *(f"{name} {figures[name]:,}" for name in entry["counts"] if name in figures),
        ],
        remedies=list(entry["remedies"]),
        is_fine=entry.get("fine", False),
    )


def name_instrument(line: LedgerLine, most: float) -> str:
    """Return the instrument that counts most of a line, without its area; empty if none does."""
    event, size = next(((e, s) for e, s in line.parts if e.startswith(_INSTRUMENT)), ("", 0))
    return event.rpartition("/")[2] if line.size and size >= most * line.size else ""


def _find_entry(name: str, entries: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return next((entry for key, entry in entries.items() if fnmatchcase(name, key)), None)


def _capitalize(owner: str) -> str:
    """Return a name as a sentence begins; one of a file or an instrument stays as it is."""
    return owner if "/" in owner or "." in owner else owner[:1].upper() + owner[1:]


def _is_session(name: str) -> bool:
    return name.startswith(("user ", "session "))
