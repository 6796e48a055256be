"""What differs between the hosts of a cluster. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from dballoc.campaign.elsewhere.place_blocks import Host

# Of a host's environment, what may change a comparison, in the order in which it is shown.
COMPARED = (
    "os", "kernel", "machine", "cpu", "cpus", "cores", "memory", "swap", "hypervisor", "governor",
    "thp", "thp_defrag", "thp_sizes", "aslr", "overcommit", "libc", "python",
)  # fmt: skip
# Seconds by which clocks may differ.
_CLOCK = 2.0


def list_differences(hosts: Sequence[Host]) -> list[str]:
    """Return a sentence for each thing in which hosts differ from what most of them have."""
    sentences = []
    for key in COMPARED:
        values = {host.name: _format(key, getattr(host.environment, key)) for host in hosts}
        sentences += _tell_difference(key.replace("_", " "), values)
    return sentences


def list_other_versions(versions: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return a sentence for each program or library that is not the same on all hosts that were
    asked for it. ``versions``: by the host's name, then by the program's.
    """
    sentences = []
    for program in dict.fromkeys(name for each in versions.values() for name in each):
        values = {name: each[program] for name, each in versions.items() if program in each}
        sentences += _tell_difference(program, values)
    return sentences


def _tell_difference(title: str, values: Mapping[str, str]) -> list[str]:
    """Return a sentence on the hosts that have not the usual value; none if all have it."""
    usual = Counter(values.values()).most_common(1)[0][0] if values else ""
    others = [f"{name}: {value}" for name, value in values.items() if value != usual]
    return [f"{title}: {'; '.join(others)}; the others: {usual}"] if others else []


def list_shared_kernels(hosts: Sequence[Host]) -> list[str]:
    """Return a sentence for each kernel that several hosts share."""
    kernels: dict[str, list[str]] = {}
    for host in hosts:
        kernels.setdefault(host.kernel, []).append(host.name)
    return [
        f"{', '.join(names)} share a kernel: their blocks run in turn"
        for names in kernels.values()
        if len(names) > 1
    ]


def list_wrong_clocks(ahead: Mapping[str, float]) -> list[str]:
    """Return a sentence for each host whose clock differs from the driver's. ``ahead``: by how many
    seconds it is ahead, by the host's name.
    """
    return [
        f"{name}: its clock is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} the "
        "driver's; set the time there (NTP)"
        for name, seconds in ahead.items()
        if abs(seconds) > _CLOCK
    ]


def _format(key: str, value: object) -> str:
    """Return a value in words; memory so roughly that hosts of one kind have the same."""
    if key in ("memory", "swap") and isinstance(value, int):
        return f"{value / 2**30:.0f} GiB"
    return "none" if value is None else str(value)
