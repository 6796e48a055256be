"""Posts of tests: every statement with a paragraph, as a post has to have it."""

from typing import Any

from dballoc.experiment.post import Post

PARAGRAPH = "Set-up, 3"
_UNCITED = {"source", "options_complete", "reasons", "paragraphs"}


def cite(post: dict[str, Any]) -> dict[str, Any]:
    """The post with a paragraph for each of its keys."""
    keys = [k for k, v in post.items() if k not in _UNCITED and v not in (None, {}, [])]
    keys += [
        k for k in ("options", "load_options", "warmup", "workloads") if post.get(k) in ({}, [])
    ]
    return {**post, "paragraphs": dict.fromkeys(keys, PARAGRAPH)}


def make_post(table: dict[str, Any]) -> Post:
    return Post.model_validate(cite(table))
