"""Read a day's TOML file: the stretches of traces, in their order.

``days`` is how often all of them follow one another (1 by default), ``leftovers`` ``free``
(default) or ``keep``, see ``compose_traces.py``; each ``[[stretch]]`` has
``trace``, a path from the file's own directory, and may have ``from`` and ``to`` (durations, or
names of marks), ``times`` and ``mark``, a name.
"""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.trace.changes.compose_traces import Leftovers
from dballoc.trace.changes.moments import Moment, parse_moment

MOST_TIMES = 10_000


class StretchRow(BaseModel):
    """A ``[[stretch]]``: moments in seconds or by mark; ``end`` None: to the trace's end."""

    model_config = ConfigDict(extra="forbid")
    trace: Annotated[str, Field(min_length=1, max_length=4096)]
    begin: Annotated[Moment, BeforeValidator(parse_moment), Field(alias="from")] = 0.0
    end: Annotated[Moment | None, BeforeValidator(parse_moment), Field(alias="to")] = None
    times: Annotated[int, Field(ge=1, le=MOST_TIMES, strict=True)] = 1
    mark: Annotated[str, Field(max_length=200)] = ""


class Day(BaseModel):
    """A day's file."""

    model_config = ConfigDict(extra="forbid")
    days: Annotated[int, Field(ge=1, le=MOST_TIMES, strict=True)] = 1
    leftovers: Leftovers = "free"
    stretch: Annotated[list[StretchRow], Field(min_length=1, max_length=1000)]


def read_day(path: Path) -> Day:
    """Read a day's file. Raises UsageError, with the place, if it is not one."""
    try:
        with readers.naming(path):
            return Day.model_validate(readers.table(readers.text(path)))
    except ValidationError as error:
        raise UsageError(f"{path}: {readers.first_complaint(error)}") from None
