"""Find a published profile's frames in our own profiles of contention. Pure.

The share of a frame is inclusive: that of the stacks with it, each counted once. All of them are
the context switches of the server's threads, waits and preemptions alike, and the wake-ups of
others by its threads, where these were recorded: each has a stack, and both together are what a
trace of context switches on Windows has (the stack that is switched in, and the one that made it
ready). A profile without call stacks, read from /proc, has no shares.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import translate

from dballoc.profile.contention.waits import PREEMPTED
from dballoc.profile.model import Frame, Profile, Sample
from dballoc.questions.campaign.figures.profiles import ContentionProfiles
from dballoc.questions.published.post_figures import FrameTable, PublishedFrame


@dataclass(frozen=True, kw_only=True)
class MeasuredFrames:
    """The frames that were looked for in the profile of a variant. ``shares``: by the post's name,
    1 = all; a frame on no stack is not there. ``clients``: as the profile says, "" if it does not;
    ``wakeups``: whether wake-ups were recorded; ``preemptions``: whether preemptions were;
    ``lost``: records that the profile says were lost.
    """

    variant: str
    shares: Mapping[str, float]
    clients: str
    wakeups: bool
    preemptions: bool
    lost: int = 0


def measure_frames(
    table: FrameTable, profiles: Mapping[str, ContentionProfiles]
) -> dict[str, MeasuredFrames]:
    """Return what each variant's profile has of the published frames; nothing for one without call
    stacks. ``profiles``: of the table's workload, by variant.
    """
    measured = {}
    for name, of_variant in profiles.items():
        switches = of_variant.switches
        if switches is None or not _has_call_stacks(switches):
            continue
        # Wake-ups have a number and no time, so they do not add to a profile of times alone.
        wakeups = of_variant.wakeups if _list_count_columns(switches) else None
        measured[name] = MeasuredFrames(
            variant=name,
            shares=sum_frame_shares(table.frames, [switches, *([wakeups] if wakeups else [])]),
            clients=switches.facts.get("clients", ""),
            wakeups=wakeups is not None,
            preemptions=PREEMPTED in switches.values,
            lost=switches.read_count("records lost"),
        )
    return measured


def sum_frame_shares(
    frames: Iterable[PublishedFrame], profiles: Iterable[Profile]
) -> dict[str, float]:
    """Return the share of each frame that is on any stack: of the counts of all profiles together,
    or of their first value where they count nothing.
    """
    matcher = _Matcher(frames)
    sums: dict[str, float] = {}
    total = 0.0
    for profile in profiles:
        columns = _list_count_columns(profile) or [0]
        for sample in profile.samples:
            number = sum(sample.values[column] for column in columns)
            total += number
            for name in matcher.find(sample):
                sums[name] = sums.get(name, 0.0) + number
    return {name: value / total for name, value in sums.items() if value > 0}


def _has_call_stacks(profile: Profile) -> bool:
    """Whether its samples are call stacks: what is read from /proc has two frames at most."""
    return any(len(sample.stack) > 2 for sample in profile.samples)


def _list_count_columns(profile: Profile) -> list[int]:
    """Return the columns of a sample that count stacks; none for a profile of times alone."""
    return [i for i, value in enumerate(profile.values) if value.unit == "count"]


class _Matcher:
    """Finds the published frames of a stack; its answer for a function is kept, as a function is on
    thousands of stacks.
    """

    def __init__(self, frames: Iterable[PublishedFrame]) -> None:
        self._patterns = [
            (frame, re.compile("|".join(map(translate, frame.functions or [frame.name]))))
            for frame in frames
        ]
        self._known: dict[Frame, tuple[PublishedFrame, ...]] = {}

    def find(self, sample: Sample) -> set[str]:
        """Return the names of the published frames that are on a sample's stack."""
        below_malloc = "malloc" in sample.labels
        return {
            published.name
            for frame in sample.stack
            for published in self._look_up(frame)
            if below_malloc or not published.below_malloc or self._is_itself(frame, published)
        }

    def _look_up(self, frame: Frame) -> tuple[PublishedFrame, ...]:
        if frame not in self._known:
            self._known[frame] = tuple(
                published
                for published, pattern in self._patterns
                if pattern.match(frame.function) or self._is_itself(frame, published)
            )
        return self._known[frame]

    def _is_itself(self, frame: Frame, published: PublishedFrame) -> bool:
        """Whether it is the post's own function, as an imported profile has it: MODULE!FUNCTION, or
        with the module apart.
        """
        return published.name in (frame.function, f"{frame.module}!{frame.function}")
