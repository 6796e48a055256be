"""Published figures as data: what a post measured, on what, and its tables. Pure.

Of each there are two files in catalogue/published/. NAME.toml:

source, machine, server, method   where the figures are from and what they are of, in words
cpus           of its server
remarks        what its text says beside the figures
[[table]]      name, title, caption; and
  across       "columns": figures of a row are compared with each other; "rows": those of a column
  ratios       the figures are ratios to ``baseline``, a variant of ours
  change       show Δ % against the column ``baseline`` too
  collapse     a table of collapses follows
  units        by measure, what a figure is multiplied with to give our unit (bytes, 1/s)
[frames]       its profile: ``title``, ``hundred_percent`` (what that is), and a
[[frames.frame]]  for each frame, in the post's order: ``name``, ``functions`` (patterns of ours
               that stand for it, ``*`` for anything; none: nothing does), ``below_malloc`` (only on
               stacks that lead through malloc or free), ``remark``

NAME.csv has a line a figure: ``table``; ``row`` and ``column``, as the post has them; ``workload``
and ``threads`` (a number; "best" or "largest" for those over all levels; empty for a figure of the
whole run or of its only level); ``variant``: of ours, empty where none stands for it; ``measure``;
``value``. In lines of table ``frames``, ``row`` is the frame, ``column`` the post's name of the
variant, ``value`` per cent, or "not visible" where the post says so of the frame.
"""

import csv
import io
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

# The CSV's name of this table.
FRAMES = "frames"
# The value of a frame that the post looked for and did not see.
NOT_VISIBLE = "not visible"


@dataclass(frozen=True, kw_only=True)
class PublishedFrame:
    """A function of the post's profile. ``shares``: by column, 1 = all; ``not_visible``: columns
    in which the post says that it is not visible; the rest as in the module's text.
    """

    name: str
    shares: Mapping[str, float]
    not_visible: frozenset[str] = frozenset()
    functions: tuple[str, ...] = ()
    below_malloc: bool = False
    remark: str = ""


@dataclass(frozen=True, kw_only=True)
class FrameTable:
    """The post's profile of a workload at a level. ``variants``: by column, of ours (None: none
    stands for it).
    """

    title: str
    hundred_percent: str
    workload: str
    threads: int
    variants: Mapping[str, str | None]
    frames: tuple[PublishedFrame, ...]


def parse_frames(table: Mapping[str, Any], lines: list[dict[str, str]]) -> FrameTable:
    """Parse the TOML's table and the CSV's lines. Raises KeyError and ValueError if they do not
    match each other.
    """
    shares: dict[str, dict[str, float]] = {}
    not_visible: dict[str, set[str]] = {}
    for line in lines:
        of_frame = shares.setdefault(line["row"], {})
        if line["value"] == NOT_VISIBLE:
            not_visible.setdefault(line["row"], set()).add(line["column"])
        else:
            of_frame[line["column"]] = round(float(line["value"]) / 100, 6)
    frames = tuple(
        PublishedFrame(
            name=entry["name"],
            shares=shares.pop(entry["name"]),
            not_visible=frozenset(not_visible.get(entry["name"], ())),
            functions=tuple(entry.get("functions", ())),
            below_malloc=entry.get("below_malloc", False),
            remark=entry.get("remark", ""),
        )
        for entry in table["frame"]
    )
    places = {(line["workload"], int(line["threads"])) for line in lines}
    if shares or len(places) != 1:
        raise ValueError(f"frames that are not described, or several places: {shares}, {places}")
    [(workload, threads)] = places
    return FrameTable(
        title=table["title"],
        hundred_percent=table["hundred_percent"],
        workload=workload,
        threads=threads,
        variants={line["column"]: line["variant"] or None for line in lines},
        frames=frames,
    )


Level = int | Literal["best", "largest"] | None


@dataclass(frozen=True, kw_only=True)
class PublishedFigure:
    """One figure. ``measure``: a name of :mod:`dballoc.questions.published.measured_figures`;
    ``variant`` is None where none of our variants stands for it.
    """

    row: str
    column: str
    workload: str | None
    threads: Level
    variant: str | None
    measure: str
    value: float


@dataclass(frozen=True, kw_only=True)
class PublishedTable:
    """A table of the post, its cells in its own order."""

    name: str
    title: str
    caption: str
    cells: tuple[PublishedFigure, ...]
    across: Literal["columns", "rows"] = "columns"
    baseline: str | None = None
    ratios: bool = False
    change: bool = False
    collapse: bool = False
    units: Mapping[str, float] = field(default_factory=dict)

    @property
    def rows(self) -> list[str]:
        """The rows' labels, each once."""
        return list(dict.fromkeys(c.row for c in self.cells))

    @property
    def columns(self) -> list[str]:
        """The columns' labels, each once."""
        return list(dict.fromkeys(c.column for c in self.cells))


@dataclass(frozen=True, kw_only=True)
class Published:
    """The figures of one post, and their description."""

    name: str
    source: str
    machine: str
    cpus: int
    server: str
    method: str
    remarks: tuple[str, ...]
    tables: tuple[PublishedTable, ...]
    frames: FrameTable | None = None


def parse_published(name: str, text: str, figures: str) -> Published:
    """Parse the texts of both files. Raises KeyError and ValueError if they do not match the
    module.
    """
    top = tomllib.loads(text)
    lines = list(csv.DictReader(io.StringIO(figures)))
    cells: dict[str, list[PublishedFigure]] = {}
    for line in lines:
        if line["table"] != FRAMES:
            cells.setdefault(line["table"], []).append(_parse_cell(line))
    profiled = [line for line in lines if line["table"] == FRAMES]
    frames = parse_frames(top.pop(FRAMES), profiled) if profiled else None
    tables = [
        PublishedTable(**table, cells=tuple(cells.pop(table["name"]))) for table in top.pop("table")
    ]
    if cells:
        raise ValueError(f"{name}: figures of tables that are not described: {', '.join(cells)}")
    more: dict[str, Any] = top | {"remarks": tuple(top.get("remarks", ()))}
    return Published(name=name, tables=tuple(tables), frames=frames, **more)


def _parse_cell(line: dict[str, str]) -> PublishedFigure:
    threads = line["threads"]
    level: Level = (
        int(threads)
        if threads.isdigit()
        else "best"
        if threads == "best"
        else "largest"
        if threads
        else None
    )
    return PublishedFigure(
        row=line["row"],
        column=line["column"],
        workload=line["workload"] or None,
        threads=level,
        variant=line["variant"] or None,
        measure=line["measure"],
        value=float(line["value"]),
    )
