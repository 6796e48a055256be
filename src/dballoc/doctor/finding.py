"""What the doctor says of one thing."""

from dataclasses import dataclass
from typing import Literal

# missing: bench cannot run. warn: it can, but results suffer or something fails later. note:
# optional, and not here.
State = Literal["ok", "note", "warn", "missing"]


@dataclass(frozen=True)
class Finding:
    """``text`` says what is; ``remedy`` what to do about it, empty where nothing need be done."""

    name: str
    state: State
    text: str
    remedy: str = ""


def finding_from_error(name: str, state: State, error: Exception) -> Finding:
    """A finding from one of our errors: what follows its first semicolon is the remedy."""
    text, _, remedy = str(error).partition("; ")
    return Finding(name, state, text, remedy)
