"""One setting of a post beside the run's: the form of every comparison, and its words. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import get_args

from dballoc.experiment.post import Post, Topic

NOT_STATED, NOT_SET, NOT_RUN = "not stated", "not set", "not run"
# What a post has of an option that it does not set, where it states all that it sets.
DEFAULT = "not set, so the server's default"


@dataclass(frozen=True, kw_only=True)
class PostComparison:
    """One setting of the post beside the run's. ``item``: which of the topic's, empty where the
    topic is one setting. ``post`` is :data:`NOT_STATED` where the post says nothing of it.
    """

    topic: Topic
    item: str
    post: str
    run: str
    differs: bool


def compare_text(
    topic: Topic,
    item: str,
    stated: str | None,
    actual: str,
    is_same: Callable[[str, str], bool] = str.__eq__,
) -> PostComparison:
    """Compare two texts; what is not ``stated`` does not differ."""
    differs = stated is not None and not is_same(stated, actual)
    return PostComparison(
        topic=topic, item=item, post=stated or NOT_STATED, run=actual, differs=differs
    )


def compare_setting(
    post: Post,
    topic: Topic,
    item: str,
    actual: str,
    is_same: Callable[[str, str], bool] = str.__eq__,
) -> PostComparison:
    """Compare a setting of the run with what the post states of it in words (``post.states``)."""
    stated = post.states.get(", ".join(filter(None, (topic, item))))
    return compare_text(topic, item, stated, actual, is_same)


def sort_by_topic(comparisons: Iterable[PostComparison]) -> list[PostComparison]:
    """Return the comparisons in the order of topics in which a reader asks."""
    order = {topic: number for number, topic in enumerate(get_args(Topic))}
    return sorted(comparisons, key=lambda compared: order[compared.topic])


def join_words(parts: Iterable[object]) -> str:
    """Return the parts in one line."""
    return ", ".join(map(str, parts))
