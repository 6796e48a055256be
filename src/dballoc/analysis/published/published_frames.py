"""A post's profile as data: the inclusive shares of its frames, and what stands for each here.
Pure.

In the post's TOML, ``[frames]`` has ``title``, ``hundred_percent`` (what that is), and a
``[[frames.frame]]`` for each frame, in the post's order: ``name``, ``functions`` (patterns of ours
that stand for it, ``*`` for anything; none: nothing does), ``below_malloc`` (only on stacks that
lead through malloc or free), ``remark``. Its figures are the CSV's lines of table ``frames``:
``row`` is the frame, ``column`` the post's name of the variant, ``value`` per cent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The CSV's name of this table.
FRAMES = "frames"


@dataclass(frozen=True, kw_only=True)
class PublishedFrame:
    """A function of the post's profile. ``shares``: by column, 1 = all; the rest as in the
    module's text.
    """

    name: str
    shares: Mapping[str, float]
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
    """Parse the TOML's table and the CSV's lines. KeyError and ValueError if they do not match each
    other.
    """
    shares: dict[str, dict[str, float]] = {}
    for line in lines:
        shares.setdefault(line["row"], {})[line["column"]] = round(float(line["value"]) / 100, 6)
    frames = tuple(
        PublishedFrame(
            name=entry["name"],
            shares=shares.pop(entry["name"]),
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
