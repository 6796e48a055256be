"""Whether much memory has no owner, and what may have it. Pure; thresholds: ``[unowned]`` of
verdicts.toml, and suspects.toml.
"""

from collections.abc import Mapping
from typing import Any

from dballoc.catalogue import suspects as suspects_catalogue
from dballoc.experiment.durations_and_sizes import parse_size
from dballoc.explain.attribution.ledger import Ledger
from dballoc.explain.sources.server_memory import SESSIONS
from dballoc.explain.verdicts.leak import FIND_CODE
from dballoc.explain.verdicts.suspects import Clues, Suspect, describe_groups, find_suspects
from dballoc.explain.verdicts.verdict import Case, Verdict, sum_owned, sum_unlabelled
from dballoc.numbers import percent, with_unit

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
    return ledger.unowned + (0 if counted else sum_owned(ledger, SESSIONS))


def judge_unowned(case: Case) -> Verdict | None:
    """Judge whether much memory has no owner, or is sessions' without a use, and name suspects."""
    ledger, counted = case.ledger, case.evidence.counted
    size = ledger.unowned
    if not is_unexplained(ledger, counted, case.limits):
        return None
    suspects = _find_suspects(case)
    unclaimed = case.exceeds(size, "unowned")
    if not unclaimed and not suspects:
        return None
    headline = (
        f"Nobody claims {with_unit(size)}, {percent(size / case.rss, 0)} of RSS"
        if unclaimed
        else f"Sessions have {with_unit(sum_owned(ledger, SESSIONS))}, and nothing counts what for"
    )
    if suspects:
        headline += f"; {_name_suspects(suspects)}"
    return Verdict(
        key="unowned" if unclaimed else "suspects",
        level="notice",
        headline=headline,
        evidence=[*_list_heap_evidence(case), *(suspect.describe() for suspect in suspects)],
        remedies=[
            *([] if "SQL" in ledger.tiers else [_LOG_IN]),
            *(f"to confirm {suspect.name}: {suspect.confirm}" for suspect in suspects),
            FIND_CODE if counted else _INSTRUMENTS,
        ],
        bytes=size if unclaimed else sum_owned(ledger, SESSIONS),
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
    live = f"live heap without a label {with_unit(sum_unlabelled(case.ledger))}"
    groups = case.evidence.groups
    if groups is None:
        return [
            live,
            f"blocks of {case.ledger.malloc} cannot be counted from outside: what follows is from "
            "variables and counts alone",
        ]
    shown = describe_groups(groups, suspects_catalogue()["thresholds"]["groups"])
    return [live, f"the most in it: {shown}"] if shown else [live]
