"""The note on everything in which a run differs from the post that it repeats: topic by topic, as
"the post: …; here: …".
"""

from collections.abc import Iterable, Sequence

from dballoc.document.model import PostNote, PostTopic
from dballoc.experiment.post import Post
from dballoc.ground.numbers import count
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.published.setup.campaign_setup import compare_campaign_with_post
from dballoc.questions.published.setup.run_setup import DEFAULT, NOT_SET, NOT_STATED, PostComparison

_OPTIONS = "options"


def compose_post_note(campaign: Campaign) -> PostNote | None:
    """Return the note; None where there is nothing to compare."""
    comparisons = compare_campaign_with_post(campaign)
    post = campaign.experiment.post
    return describe_comparisons(post, comparisons) if post and comparisons else None


def describe_comparisons(post: Post, comparisons: Sequence[PostComparison]) -> PostNote:
    """Return the note on what differs, and on what the run has chosen where the post is silent."""
    by_topic: dict[str, list[PostComparison]] = {}
    for compared in comparisons:
        if compared.differs:
            by_topic.setdefault(compared.topic, []).append(compared)
    reasons = {str(topic): reason for topic, reason in post.reasons.items()}
    topics = [
        PostTopic(
            name=name,
            lines=[*_write_lines(differences), *_write_reason(reasons.get(name))],
            differences=len(differences),
        )
        for name, differences in by_topic.items()
    ]
    source = post.source or "without a source"
    total = count(sum(topic.differences for topic in topics), "difference")
    return PostNote(
        intro=f"Against the post ({source}): {total if topics else 'nothing differs'}.",
        topics=topics,
        silent=_write_silence(comparisons),
    )


def _write_lines(differences: Sequence[PostComparison]) -> list[str]:
    """Return a line for each difference; items that differ in the same way share one, and so do all
    settings with a value on one side only.
    """
    unset = [d for d in differences if d.run == NOT_SET]
    added = [d for d in differences if d.post == DEFAULT]
    pairs: dict[tuple[str, str], list[str]] = {}
    for d in differences:
        if d not in unset and d not in added:
            pairs.setdefault((d.post, d.run), []).append(d.item)
    lines = [_write_line(", ".join(items), *texts) for texts, items in pairs.items()]
    if unset:
        lines.append(_write_line("", _list_settings((d.item, d.post) for d in unset), NOT_SET))
    if added:
        lines.append(_write_line("", DEFAULT, _list_settings((d.item, d.run) for d in added)))
    return lines


def _write_reason(reason: str | None) -> list[str]:
    """Return the line that says why; what it names is not always all that differs."""
    return [f"why: {reason}"] if reason else []


def _write_line(item: str, post: str, run: str) -> str:
    return f"{f'{item}: ' if item else ''}the post: {post}; here: {run}"


def _list_settings(settings: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings)


def _write_silence(comparisons: Sequence[PostComparison]) -> str:
    """Return what the run does where the post states nothing and an option's default is not meant;
    empty where there is nothing.
    """
    chosen = [c for c in comparisons if c.post == NOT_STATED and not c.differs]
    if not chosen:
        return ""
    options = _list_settings((c.item, c.run) for c in chosen if c.topic == _OPTIONS)
    words = "; ".join(
        [
            *([f"{_OPTIONS}: {options}"] if options else []),
            *(
                f"{c.topic}{f', {c.item}' if c.item else ''}: {c.run}"
                for c in chosen
                if c.topic != _OPTIONS
            ),
        ]
    )
    return f"The post does not state in its text, and here it is: {words}."
