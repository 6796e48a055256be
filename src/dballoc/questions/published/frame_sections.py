"""A post's profile beside ours: the inclusive shares of its frames, and of what stands for them."""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from dballoc.document.csv import make_frame
from dballoc.document.model import Table
from dballoc.ground.numbers import NOTHING, listing, percent
from dballoc.questions.campaign.figures.profiles import CampaignContention, Profiles
from dballoc.questions.published.inclusive_frames import MeasuredFrames, measure_frames
from dballoc.questions.published.post_figures import (
    NOT_VISIBLE,
    FrameTable,
    PublishedFrame,
)

# Of the stacks; frames that are all on fewer are in no order that means anything.
_LEAST_SHARE = 0.001
# Of the functions that stand for a frame so many are named.
_FUNCTIONS_SHOWN = 3


def measure_published_frames(frames: FrameTable, profiles: Profiles) -> dict[str, MeasuredFrames]:
    """Return what our profiles of the post's workload have of its frames, by variant; nothing
    without profiles of contention.
    """
    if not isinstance(profiles, CampaignContention):
        return {}
    return measure_frames(frames, profiles.of(frames.workload))


def tabulate_frames(frames: FrameTable, measured: Mapping[str, MeasuredFrames]) -> Table:
    """Return a row a frame, the largest published share of the first column first: the published
    share and ours for each variant, and what stands for the frame here.
    """
    columns = ["frame of the post"]
    for column in frames.variants:
        columns += [f"{column}: published", "ours"]
    rows = [
        [frame.name, *_format_shares(frames, frame, measured), _describe_stand_in(frame)]
        for frame in _order_frames(frames)
    ]
    clients = listing(sorted({m.clients for m in measured.values() if m.clients}))
    measured_at = f" (ours: {clients})" if clients else ""
    return Table(
        title=f"{frames.title}, {frames.threads:,} clients{measured_at}",
        columns=[*columns, "stands for it here"],
        rows=rows,
        caption=_make_caption(frames, measured),
        words=("stands for it here",),
    )


def describe_frame_order(frames: FrameTable, measured: Mapping[str, MeasuredFrames]) -> list[str]:
    """Return a sentence on the order of the frames that both have, under the first variant; or on
    why there is none.
    """
    column, variant = next(iter(frames.variants.items()))
    of_variant = measured.get(variant or "")
    if of_variant is None:
        return [
            f"The post's frames have nothing of ours beside them: there is no contention profile "
            f"with call stacks of {column} under {frames.workload}."
        ]
    published = {f.name: f.shares[column] for f in frames.frames if column in f.shares}
    both = published.keys() & of_variant.shares.keys()
    if len(both) < 2:
        return []
    if max(of_variant.shares[name] for name in both) < _LEAST_SHARE:
        return [
            f"The frames that both have, {column}, are on less than {percent(_LEAST_SHARE, 1)} of "
            "the stacks here, each: their order says nothing."
        ]
    post_order = _format_order({name: published[name] for name in both})
    order = _format_order({name: of_variant.shares[name] for name in both})
    ours_in_words = "the same here" if post_order == order else f"here {order}"
    return [
        f"Order of the frames that both have, {column}: in the post {post_order}; {ours_in_words}."
    ]


def narrow_frames(frames: FrameTable, measured: Mapping[str, MeasuredFrames]) -> Table:
    """Return the table for a terminal of 80 columns, with the order below it: without the files of
    the post's functions, the unit, and what stands for the functions here, which the report has.
    """
    table = tabulate_frames(frames, measured)
    sentences = [*describe_frame_order(frames, measured), "Per cent."]
    if any(frame.not_visible for frame in frames.frames):
        sentences.append(f"{_NARROW}: {NOT_VISIBLE}, says the post.")
    return replace(
        table,
        columns=[heading.removesuffix(": published") for heading in table.columns[:-1]],
        rows=[
            [frame.rpartition("!")[2], *map(_shorten_share, shares[:-1])]
            for frame, *shares in table.rows
        ],
        caption=" ".join([*sentences, table.caption]),
    )


# What a narrow table has in place of "not visible".
_NARROW = "none"


def _shorten_share(share: str) -> str:
    return _NARROW if share == NOT_VISIBLE else share.removesuffix(" %")


_FRAMES = ("frame", "column", "variant", "published", "not_visible", "ours", "stands_for_it")


def collect_frame_table(frames: FrameTable, profiles: Profiles) -> pl.DataFrame:
    """Return the table for csv/: shares, 1 = all."""
    measured = measure_published_frames(frames, profiles)
    rows = [
        (
            frame.name,
            column,
            variant,
            frame.shares.get(column),
            column in frame.not_visible,
            _find_share(measured, variant, frame),
            " ".join(frame.functions),
        )
        for frame in frames.frames
        for column, variant in frames.variants.items()
    ]
    return make_frame(_FRAMES, rows)


def _order_frames(frames: FrameTable) -> list[PublishedFrame]:
    first = next(iter(frames.variants))
    return sorted(frames.frames, key=lambda frame: -frame.shares.get(first, -1.0))


def _format_shares(
    frames: FrameTable, frame: PublishedFrame, measured: Mapping[str, MeasuredFrames]
) -> list[str]:
    cells = []
    for column, variant in frames.variants.items():
        published = (
            NOT_VISIBLE if column in frame.not_visible else percent(frame.shares.get(column), 2)
        )
        cells += [published, percent(_find_share(measured, variant, frame), 2)]
    return cells


def _find_share(
    measured: Mapping[str, MeasuredFrames], variant: str | None, frame: PublishedFrame
) -> float | None:
    """Return our share; None where the variant has no profile, or the frame is on no stack of
    it.
    """
    of_variant = measured.get(variant or "")
    return of_variant.shares.get(frame.name) if of_variant else None


def _describe_stand_in(frame: PublishedFrame) -> str:
    if not frame.functions:
        return f"nothing: {frame.remark}" if frame.remark else "nothing"
    shown = ", ".join(frame.functions[:_FUNCTIONS_SHOWN])
    more = ", …" if len(frame.functions) > _FUNCTIONS_SHOWN else ""
    where = ", below malloc" if frame.below_malloc else ""
    remark = f"; {frame.remark}" if frame.remark else ""
    return f"{shown}{more}{where}{remark}"


def _make_caption(frames: FrameTable, measured: Mapping[str, MeasuredFrames]) -> str:
    sentences = [
        "Inclusive: of all stacks, those that contain the frame.",
        f"100 % in the post: {frames.hundred_percent}.",
    ]
    if measured:
        switches = (
            "all context switches of the server's threads, waits and preemptions"
            if all(m.preemptions for m in measured.values())
            else "the waits that the files hold"
        )
        woken = (
            ", and of threads as they woke another."
            if all(m.wakeups for m in measured.values())
            else "; wake-ups were not recorded, so what releases a lock is not there."
        )
        sentences += [
            f"100 % here: the stacks of {switches}{woken}",
            f"{NOTHING}: on no stack here, or without a name in this build's symbols.",
            *_describe_losses(measured),
        ]
    return " ".join(sentences)


def _describe_losses(measured: Mapping[str, MeasuredFrames]) -> list[str]:
    """Return a sentence on records that perf lost, so that some stacks are not there."""
    lost = [f"{m.lost:,} under {m.variant}" for m in measured.values() if m.lost]
    return [f"Records that perf lost here: {listing(lost)}."] if lost else []


def _format_order(shares: Mapping[str, float]) -> str:
    """Return the frames' names without their files, the largest share first."""
    ordered = sorted(shares, key=lambda name: (-shares[name], name))
    return " > ".join(name.rpartition("!")[2] for name in ordered)
