"""Whether much memory has no owner, and what may have it. Pure; thresholds: ``[unowned]`` of
verdicts.toml, and suspects.toml.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dballoc.catalogue import suspects as suspects_catalogue
from dballoc.evidence.sql.server_memory import SESSIONS
from dballoc.experiment.durations_and_sizes import parse_size
from dballoc.explain.ledger.ledger import Ledger
from dballoc.explain.verdicts.leak import FIND_CODE
from dballoc.explain.verdicts.verdict import UNLABELLED, Case, MemoryVerdict
from dballoc.ground.numbers import count, percent, with_unit
from dballoc.process.heaps.heap_walk import BlockGroup

# A block is at most this much larger than what was asked for: pages, and what servers add.
_ROUNDING, _MORE = 1 / 32, 2 * 4096
# How much less than the configured size a block that is said to have it may be.
_SHORT = 1 / 64
# What a kind of fit is worth, beside how well it fits: what the server counts or blocks of exactly
# the configured size before what only stays below a bound.
_WORTH = {"counted": 1.0, "at_most": 0.6, "exact": 1.0, "up_to": 0.6, "items": 0.3}
_WORTH_OF_FIT = {"counted": 0.0, "at_most": 0.0, "exact": 0.0, "up_to": 0.3, "items": 0.6}

_UNSEEN = 0.25

Likelihood = Literal["likely", "possible"]


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A candidate. ``bytes``: what it would explain; ``fit``: how it fits, with figures; ``bound``:
    what bounds it; ``confirm``: what would prove it; ``rank``: from 0 to 1.
    """

    name: str
    likelihood: Likelihood
    bytes: int
    fit: str
    bound: str
    confirm: str
    rank: float

    def describe(self) -> str:
        """Return it as a sentence."""
        return f"{self.likelihood}: {self.name}: {self.fit}; bounded by {self.bound}"


@dataclass(frozen=True, kw_only=True)
class Clues:
    """What suspects are judged by. ``unexplained``: bytes that nobody claims; ``groups``: live
    blocks by size, None where the malloc's heap cannot be walked; ``numbers``: variables, status
    and counts of the server, by name.
    """

    unexplained: int
    groups: Sequence[BlockGroup] | None
    numbers: Mapping[str, int]


@dataclass(frozen=True)
class _Match:
    """``bytes`` that an entry would explain, how well it fits (0 to 1), and that in words."""

    bytes: int
    fit: float
    words: str


def find_suspects(clues: Clues, catalogue: Mapping[str, Any]) -> list[Suspect]:
    """Return the candidates, likely ones first. ``catalogue``: that of suspects."""
    limits = catalogue["thresholds"]
    suspects = []
    for entry in catalogue["suspects"]:
        match = _match_entry(entry, clues, limits)
        if match is None or match.bytes < limits["share"] * clues.unexplained:
            continue
        share = min(1.0, match.bytes / clues.unexplained)
        exactly = entry["fit"] == "counted" or (
            entry["fit"] == "exact" and clues.groups is not None
        )
        kind = entry["fit"]
        # Where no block is seen, a setting says only that it could be.
        visible = clues.groups is not None or kind in ("counted", "at_most", "items")
        worth = _WORTH[kind] + _WORTH_OF_FIT[kind] * match.fit if visible else _UNSEEN
        suspects.append(
            Suspect(
                name=entry["name"],
                likelihood="likely" if exactly and share >= limits["likely"] else "possible",
                bytes=match.bytes,
                fit=match.words,
                bound=entry["bound"],
                confirm=entry["confirm"],
                rank=share * worth,
            )
        )
    suspects.sort(key=lambda suspect: (suspect.likelihood != "likely", -suspect.rank))
    return suspects[: limits["most"]]


def describe_groups(groups: Sequence[BlockGroup], most: int) -> str:
    """Return the groups of live blocks with most bytes, in words; empty if there are none."""
    return ", ".join(
        f"{count(group.count, 'block')} of {with_unit(group.size)}" for group in groups[:most]
    )


def _match_entry(
    entry: Mapping[str, Any], clues: Clues, limits: Mapping[str, Any]
) -> _Match | None:
    """Match blocks that are as large as a variable (``exact``) or no larger (``up_to``), small
    blocks (``items``), or what the server counts: exactly, or what there can be ``at_most``.
    """
    fit, numbers = entry["fit"], clues.numbers
    if fit == "items":
        return _match_items(entry, clues, limits)
    if fit in ("exact", "up_to"):
        least = int(numbers.get(entry["size"], 0) * (1 - _SHORT))
        if fit == "up_to":
            least = parse_size(entry["least"])
        return _match_blocks(entry, clues, limits, least)
    size, number = numbers.get(entry["bytes"], 0), numbers.get(entry["number"], 0)
    if not size:
        return None
    # It cannot be much more than what nobody claims.
    explained = min(size, clues.unexplained)
    if fit == "counted":
        words = f"{number:,} with {with_unit(size)} by the server's own count"
        return _Match(explained, 1.0, words)
    words = f"{number:,} {_name_number(entry['number'])}: up to {with_unit(size)}"
    return _Match(explained, 0.0, words)


def _match_blocks(
    entry: Mapping[str, Any], clues: Clues, limits: Mapping[str, Any], least: int
) -> _Match | None:
    """Match groups of blocks from ``least`` bytes to the entry's variable, no more of them than may
    be; without groups the variable alone, if somebody has raised it.
    """
    size = clues.numbers.get(entry["size"], 0)
    number = clues.numbers.get(entry["number"], 0)
    most = number * entry.get("times", 1)
    if not size or not most:
        return None
    setting = f"{entry['size']}={with_unit(size)}, {number:,} {_name_number(entry['number'])}"
    if clues.groups is None:
        if size <= parse_size(entry["usual"]):
            return None
        return _Match(
            min(size * most, clues.unexplained), 0.0, f"{setting}: up to {with_unit(size * most)}"
        )
    groups = [
        group
        for group in clues.groups
        if least <= group.size <= size * (1 + _ROUNDING) + _MORE
        and group.count <= most
        # One block alone may be anything: a server has some of its own.
        and (group.count > 1 or group.bytes >= limits["likely"] * clues.unexplained)
    ]
    if not groups:
        return None
    return _Match(
        min(sum(group.bytes for group in groups), clues.unexplained),
        # A block that is nearly as large as the setting says more, and so does a raised setting.
        (min(1.0, groups[0].size / size) + (size > parse_size(entry["usual"]))) / 2,
        f"{describe_groups(groups, 2)} in the heap; {setting}",
    )


def _match_items(
    entry: Mapping[str, Any], clues: Clues, limits: Mapping[str, Any]
) -> _Match | None:
    """Match small blocks: each of so many items would have a plausible part of them."""
    number = clues.numbers.get(entry["number"], 0)
    scale = clues.numbers.get(entry["scale"], 0) if "scale" in entry else 1
    large = sum(g.bytes for g in clues.groups or () if g.size >= parse_size(limits["large"]))
    small = max(0, clues.unexplained - large)
    if not number * scale or not small:
        return None
    least, usual, most = (
        size if isinstance(size, int) else parse_size(size) for size in entry["item"]
    )
    each = small / (number * scale)
    if not least <= each <= most:
        return None
    off = abs(math.log(each / usual)) / math.log(most / usual if each > usual else usual / least)
    words = f"{number:,} {_name_number(entry['number'])}"
    if scale > 1:
        words += f" and {with_unit(scale)} of their text"
    return _Match(small, 1 - off, f"{words}: {with_unit(each * scale)} for each, if it is that")


def _name_number(number: str) -> str:
    return _NUMBERS.get(number, number.replace("_", " "))


_NUMBERS = {
    "running": "running statements",
    "prepared_stmt_count": "of them",
    "text_indexes": "tables with one",
    "myisam_tables": "MyISAM tables with indexes",
}
_LOG_IN = (
    "let dballoc log in to the server: ~/.my.cnf or --login-path; it costs one connection for the "
    "time of a look"
)
_INSTRUMENTS = (
    "instruments from the start: performance_schema=ON, performance_schema_instrument='memory/%=ON'"
    "; it costs a restart, performance_schema's own memory, and some CPU at each allocation"
)


def is_unexplained(ledger: Ledger, counted: bool, limits: Mapping[str, Any]) -> bool:
    """Whether so much memory is without a named use that it is worth asking the server what may
    have it. ``counted``: whether its memory instruments are on; ``limits``: verdicts.toml.
    """
    size, least = _sum_unexplained(ledger, counted), limits["unowned"]
    return size >= least["rss"] * ledger.rss and size >= parse_size(least["least"])


def _sum_unexplained(ledger: Ledger, counted: bool) -> int:
    """Return the bytes that no owner claims, and those of sessions where nothing says what for."""
    return ledger.unowned + (0 if counted else ledger.sum_resident(SESSIONS))


def judge_unowned(case: Case) -> MemoryVerdict | None:
    """Judge whether much memory has no owner, or is sessions' without a use, and name suspects."""
    ledger, counted = case.ledger, case.evidence.counted
    size = ledger.unowned
    if not is_unexplained(ledger, counted, case.limits):
        return None
    suspects = _find_suspects(case)
    unclaimed = case.exceeds(size, "unowned")
    of_sessions = ledger.sum_resident(SESSIONS)
    if not unclaimed and not suspects:
        return None
    headline = (
        f"Nobody claims {with_unit(size)}, {percent(size / case.rss, 0)} of RSS"
        if unclaimed
        else f"Sessions have {with_unit(of_sessions)}, and nothing counts what for"
    )
    if suspects:
        headline += f"; {_name_suspects(suspects)}"
    return MemoryVerdict(
        key="unowned" if unclaimed else "suspects",
        level="notice",
        headline=headline,
        evidence=[*_list_heap_evidence(case), *(suspect.describe() for suspect in suspects)],
        remedies=[
            *([] if "SQL" in ledger.tiers else [_LOG_IN]),
            *(f"to confirm {suspect.name}: {suspect.confirm}" for suspect in suspects),
            FIND_CODE if counted else _INSTRUMENTS,
        ],
        bytes=size if unclaimed else of_sessions,
    )


def _find_suspects(case: Case) -> list[Suspect]:
    evidence = case.evidence
    clues = Clues(
        unexplained=_sum_unexplained(case.ledger, evidence.counted),
        groups=evidence.groups,
        numbers=evidence.figures | evidence.counts,
    )
    # What nobody has asked the server for has no suspects.
    return find_suspects(clues, suspects_catalogue()) if evidence.counts else []


def _name_suspects(suspects: list[Suspect]) -> str:
    likely = [suspect.name for suspect in suspects if suspect.likelihood == "likely"]
    return (
        f"likely {likely[0]}"
        if likely
        else f"it may be {' or '.join(suspect.name for suspect in suspects[:3])}"
    )


def _list_heap_evidence(case: Case) -> list[str]:
    """Return what the heap shows, or that it does not."""
    live = f"live heap without a label {with_unit(case.ledger.sum_resident(*UNLABELLED))}"
    groups = case.evidence.groups
    if groups is None:
        return [
            live,
            f"blocks of {case.ledger.malloc} cannot be counted from outside: what follows is from "
            "variables and counts alone",
        ]
    shown = describe_groups(groups, suspects_catalogue()["thresholds"]["groups"])
    return [live, f"the most in it: {shown}"] if shown else [live]
