"""What a cache costs beside itself, and which size of it is too large: sentences and a table."""

from collections.abc import Sequence

from dballoc.document.model import Column, Section, Table, tabulate
from dballoc.experiment.durations_and_sizes import format_size
from dballoc.ground.numbers import count, listing, mebibytes
from dballoc.questions.campaign.figures.cache_sizes import CacheLine, CacheSize


def describe_cache_sizes(lines: Sequence[CacheLine], limit: int | None) -> list[str]:
    """Return a sentence for each line: its ratios, and between which sizes it is killed. ``limit``:
    as for the chart.
    """
    if not lines:
        return []
    within = f", within {format_size(limit)} for the server" if limit else ""
    sizes = [size for line in lines for size in line.sizes]
    scaled = any(size.size != size.full_size for size in sizes)
    brackets = " In brackets: the size at full scale." if scaled else ""
    return [
        f"Peak RSS ÷ cache{within}.{brackets}",
        *(
            f"{line.name}: {'; '.join([_describe_ratios(line), _describe_kills(line)])}."
            for line in lines
        ),
    ]


def _describe_ratios(line: CacheLine) -> str:
    """Return ``3.62 at 10G, 2.90 at 30G, 2.54 for each byte between``: of the smallest and largest
    size that survive.
    """
    ends = line.survivors[:1] + line.survivors[1:][-1:]
    words = [f"{size.ratio:.2f} at {_name_size(size)}" for size in ends]
    if line.growth is not None:
        words.append(f"{line.growth:.2f} for each byte between")
    return ", ".join(words) or "no ratio"


def _describe_kills(line: CacheLine) -> str:
    killed, survivor = line.smallest_killed, line.largest_survivor
    if killed is None:
        return "never killed for memory"
    above = [s for s in line.survivors if s.size > killed.size]
    partly = f" ({killed.kills} of {count(killed.trials, 'trial')})" if killed.peaks else ""
    text = (
        f"killed for memory between {_name_size(survivor)} and {_name_size(killed)}{partly}"
        if survivor
        else f"killed for memory at {_name_size(killed)}, the smallest{partly}"
    )
    if above:
        text += f", though trials at {listing([_name_size(size) for size in above])} survived"
    return text


def _name_size(size: CacheSize) -> str:
    """Return ``154M (30G)``, or ``30G`` at full scale."""
    full = f" ({format_size(size.full_size)})" if size.full_size != size.size else ""
    return f"{format_size(size.size)}{full}"


_COLUMNS = (
    Column("malloc", "line"),
    Column("cache", _name_size),
    Column("peak RSS ÷ cache", "ratio", "{:.2f}".format),
    Column("peak RSS, MiB", "peak", mebibytes),
    Column("killed for memory", lambda s: f"{s.kills} of {s.trials}"),
    Column("RSS seen at the kill, MiB", "killed_at", mebibytes),
)


def tabulate_cache_sizes(lines: Sequence[CacheLine]) -> Table:
    """Return a row for each line and size."""
    rows = [size for line in lines for size in line.sizes]
    caption = (
        "Means over the trials that ended as planned; the highest RSS that was seen of others."
    )
    return tabulate("Peak RSS ÷ cache", _COLUMNS, rows, caption=caption, heads=2)


def make_cache_screen(lines: Sequence[CacheLine], limit: int | None) -> list[Section]:
    """Return what the terminal shows of the sizes."""
    text = describe_cache_sizes(lines, limit)
    return [Section(key="", title="", text=text)] if text else []
