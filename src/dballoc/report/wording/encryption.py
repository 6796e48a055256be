"""Whether the load was encrypted, in sentences: encryption costs CPU and memory on both sides, so
it is a part of what was measured. Pure.
"""

from collections.abc import Mapping

from dballoc.analysis.client_connections import VariantConnections
from dballoc.numbers import listing


def describe_encryption(by_variant: Mapping[str, VariantConnections], asked_for: bool) -> list[str]:
    """Return what the servers counted, in one paragraph; nothing where nothing is known.
    ``asked_for``: whether the experiment asks for encryption.
    """
    if not by_variant:
        return []
    made = sum(each.made for each in by_variant.values())
    encrypted = sum(each.encrypted for each in by_variant.values())
    reason = (
        'The experiment asks for encryption (connect = "tls").'
        if asked_for
        else "The experiment asks for no encryption, so the client library decided."
    )
    number = "none" if not encrypted else "all" if encrypted >= made else f"{encrypted:,}"
    return [
        f"Encrypted connections of the load (TLS), by the servers' own counts: {number} of "
        f"{made:,}. {_describe_offers(by_variant)} {reason}"
    ]


def _describe_offers(by_variant: Mapping[str, VariantConnections]) -> str:
    offers = {each.tls for each in by_variant.values()}
    if len(offers) > 1:
        each = [f"{name} {listing(v.tls) or 'none'}" for name, v in by_variant.items()]
        return f"The servers offered different TLS: {'; '.join(each)}."
    return f"The servers offered {listing(offers.pop()) or 'no TLS'}."


def warn_of_encryption(by_variant: Mapping[str, VariantConnections]) -> list[str]:
    """Return a note where the load of some variants was encrypted, and that of others was not."""
    names: dict[str, list[str]] = {}
    for name, connections in by_variant.items():
        names.setdefault(connections.words, []).append(name)
    if len(names) < 2:
        return []
    groups = [f"those of {listing(each)} were {words}" for words, each in names.items()]
    return [
        f"Not all variants had the same kind of connections: {'; '.join(groups)}. What encryption "
        "costs is in the figures."
    ]
