"""The result of one check."""

from dataclasses import dataclass
from typing import Literal

# missing: bench cannot run. warn: it can, but results suffer or something fails later. note: an
# optional part is not there.
State = Literal["ok", "note", "warn", "missing"]


@dataclass(frozen=True)
class Finding:
    """``text``: the state of what was checked; ``remedy``: what to do about it, or empty."""

    name: str
    state: State
    text: str
    remedy: str = ""


def finding_from_error(name: str, state: State, error: Exception) -> Finding:
    """Make a finding of one of our errors: what follows its first semicolon is the remedy."""
    text, _, remedy = str(error).partition("; ")
    return Finding(name, state, text, remedy)
