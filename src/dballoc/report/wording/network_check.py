"""Whether the network was checked, in a sentence: where it was the limit, it and not the malloc was
measured. Pure.
"""

from dballoc.analysis.hosts.network_checks import NetworkChecks


def describe_network_checks(checks: NetworkChecks) -> list[str]:
    """Return which levels were not checked, in one paragraph; nothing where all were."""
    if not checks.unchecked:
        return []
    number = "all" if checks.unchecked == checks.levels else f"{checks.unchecked:,}"
    return [
        f"The network between servers and clients was not checked in {number} of {checks.levels:,} "
        "levels: no interface told a speed that is real, as in many clouds and in containers. "
        "Compare the bytes in table client_step with what the network is known to carry."
    ]
