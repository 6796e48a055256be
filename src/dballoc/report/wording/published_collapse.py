"""What became here of a post's collapse under many clients, as one sentence. Pure."""

from collections.abc import Sequence

from dballoc.analysis.published.collapse_seen import CollapseHere
from dballoc.numbers import listing, percent


def describe_collapse(collapses: Sequence[CollapseHere]) -> str:
    """Return the sentence: whether the collapse is seen here, and throughput with most clients ÷
    best of both; empty for a post without a collapse.
    """
    if not collapses:
        return ""
    collapsing = [c.workload for c in collapses if c.collapses]
    steady = [c.workload for c in collapses if c.measured and not c.collapses]
    if not collapsing and not steady:
        few = listing([f"{c.workload} at {_format_clients(c.needed)}" for c in collapses])
        return f"Whether the post's collapse is seen here was not measured: it takes {few}."
    if collapsing and steady:
        verdict = f"is seen here in {listing(collapsing)}, not in {listing(steady)}"
    else:
        verdict = "is seen here" if collapsing else "is not seen here"
    shares = "; ".join(_describe_share(c) for c in collapses)
    return f"The post's collapse under many clients {verdict}: {shares}."


def _describe_share(collapse: CollapseHere) -> str:
    """Return ``nt-heap keeps 93 % of its best oltp_read_only throughput with 576 clients (the post:
    11 % with 1,024)``.
    """
    post = collapse.published
    published = f"(the post: {percent(post.share, 0)} with {post.threads:,})"
    if collapse.measured is None:
        clients = _format_clients(collapse.needed)
        return f"{collapse.workload} was not measured with {clients} {published}"
    return (
        f"{collapse.variant} keeps {percent(collapse.measured.share, 0)} of its best "
        f"{collapse.workload} throughput with {_format_clients(collapse.measured.threads)} "
        f"{published}"
    )


def _format_clients(number: int) -> str:
    return f"{number:,} client{'' if number == 1 else 's'}"
