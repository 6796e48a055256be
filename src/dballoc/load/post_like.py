"""Fill in a ``[post]`` that names another one (``post.like``): what two experiments' posts have in
common is stated once.
"""

import tomllib
from typing import Any

from dballoc import catalogue
from dballoc.ground.errors import UsageError

# The key that names a shipped experiment, whose ``[post]`` a post's own keys are laid over.
KEY = "like"
# Tables that a post adds its own entries to; those of any other table replace the shipped ones.
_MERGED = ("reasons", "states")
_PARAGRAPHS = "paragraphs"


def fill_post(table: dict[str, Any], origin: str) -> dict[str, Any]:
    """Return the experiment's table with the whole of its post. Raises UsageError that begins with
    ``origin`` if its post names no shipped experiment that repeats one, or names itself.
    """
    post = table.get("post")
    if not isinstance(post, dict) or KEY not in post:
        return table
    named: list[object] = []
    while KEY in post:
        name = post[KEY]
        other = None if name in named else _read_post(name)
        if other is None:
            raise UsageError(
                f"{origin}: post.{KEY}: {name!r} is no shipped experiment that repeats a post; "
                "dballoc list experiments --post has them"
            )
        named.append(name)
        for key in _MERGED:
            if isinstance(entries := post.get(key, {}), dict):
                post = post | {key: other.get(key, {}) | entries}
        post |= {_PARAGRAPHS: _merge_paragraphs(other, post)}
        post = other | {key: value for key, value in post.items() if key != KEY}
    return {**table, "post": post}


def _merge_paragraphs(other: dict[str, Any], post: dict[str, Any]) -> object:
    """Return the paragraphs of both; those of a key that ``post`` has anew are its own alone."""
    paragraphs = post.get(_PARAGRAPHS, {})
    if not isinstance(paragraphs, dict):
        return paragraphs  # refused with all that is no table
    replaced = post.keys() - {*_MERGED}
    inherited = {
        name: paragraph
        for name, paragraph in other.get(_PARAGRAPHS, {}).items()
        if name.partition(".")[0] not in replaced
    }
    return inherited | paragraphs


def _read_post(name: object) -> dict[str, Any] | None:
    """Return the post of a shipped experiment; None if there is none."""
    text = catalogue.experiments().get(name) if isinstance(name, str) else None
    return None if text is None else tomllib.loads(text).get("post")
