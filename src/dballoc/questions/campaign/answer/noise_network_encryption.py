"""Sentences on what else was measured: noise of the machine, the network, encryption. Pure."""

from collections.abc import Mapping

from dballoc.ground.numbers import count, listing, number, percent
from dballoc.questions.campaign.figures.two_speeds import TwoSpeeds
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.client_connections import VariantConnections


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
    how_many = "none" if not encrypted else "all" if encrypted >= made else f"{encrypted:,}"
    return [
        f"Encrypted connections of the load (TLS), by the servers' own counts: {how_many} of "
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


def describe_network_checks(campaign: Campaign) -> list[str]:
    """Return in how many levels of load from another host neither interface told its speed, so that
    the network may have been the limit; nothing where all did.
    """
    levels = campaign.step.filter(kind="level").select("trial", "step")
    loaded = campaign.client_step.join(levels, on=["trial", "step"], how="inner")
    if not (unchecked := loaded["link"].null_count()):
        return []
    which = "all" if unchecked == loaded.height else f"{unchecked:,}"
    return [
        f"The network between servers and clients was not checked in {which} of {loaded.height:,} "
        "levels: no interface told a speed that is real, as in many clouds and in containers. "
        "Compare the bytes in table client_step with what the network is known to carry."
    ]


def describe_two_speeds(levels: list[TwoSpeeds], *, has_clients_apart: bool = False) -> list[str]:
    """Return a sentence on each level, and what it means for all; nothing without such levels.
    ``has_clients_apart``: whether the clients ran on another host.
    """
    if not levels:
        return []
    if has_clients_apart:
        cause, remedy = "the server's threads were woken by other CPUs.", ""
    else:
        cause = (
            "a client's thread and the server's thread that serves it woke each other across CPUs."
        )
        remedy = (
            " With --server-cpus and --client-cpus apart, all wake-ups cross CPUs, which is slower "
            "but the same for all."
        )
    return [
        *(
            f"{level.workload} with {count(level.threads, 'client')} ran at two speeds: "
            f"{number(level.near)} transactions a second, and {number(level.across)} in "
            f"{percent(level.share_across, 0)} of the seconds, in which each transaction had "
            f"{number(level.interrupts)} rescheduling interrupts: {cause}"
            for level in levels
        ),
        "The kernel decides which threads share a CPU, and changes it while a level runs. That is "
        "noise, and none of a malloc's doing. The duet's CPU per transaction is less affected: "
        f"both of its servers meet the same kernel at the same time.{remedy}",
    ]
