"""Find the paragraph of the post that its side of a comparison is from. Pure."""

from dballoc.experiment.post import Post, Statement
from dballoc.questions.published.setup.setting_values import normalize_name, spread_settings

# Of a topic that is one statement, the key of ``[post]``.
_KEYS = {
    "machine": "machine",
    "server": "server",
    "CPUs": "cpus",
    "memory": "memory",
    "THP": "thp",
    "statements": "statements",
    "warm-up": "warmup",
}


def find_paragraph(post: Post, topic: str, item: str) -> str:
    """Return the paragraph that the post's side of a comparison is from; empty where none is
    named.
    """
    return post.find_paragraph(_find_statement(post, topic, item))


def _find_statement(post: Post, topic: str, item: str) -> Statement:
    state = ", ".join(filter(None, (topic, item)))
    if item in {str(key): table for key, table in post.otherwise.items()}.get(topic, {}):
        return "otherwise", topic, item
    if state in post.states:
        return "states", state
    if topic == "allocator":
        return "variants", item
    if topic == "options":
        return "options", _find_option(post, item)
    if topic == "load":
        return _find_load_statement(post, item)
    return (_KEYS.get(topic, topic),)


def _find_option(post: Post, item: str) -> str:
    """Return an option's name as the post's table has it; a list of settings is one option."""
    for name, value in (post.options or {}).items():
        if item in spread_settings({name: value}):
            return name
    return item


def _find_load_statement(post: Post, item: str) -> Statement:
    if item.startswith(("workload", "order of workloads")):
        return ("workloads",)
    named = {normalize_name(n).removeprefix("oltp_"): n for n in post.load_options or {}}
    return "load_options", named.get(item, item)
