"""Parse and format lists of CPUs in the kernel's notation, ``"0-3,8"``."""

import re


def parse_cpus(text: str) -> frozenset[int]:
    """Parse the CPU numbers of ``"0-3,8"``. Raises ValueError if it is not such a list, or is
    empty.
    """
    cpus: set[int] = set()
    for part in text.split(","):
        # Linux numbers 8192 CPUs at most.
        match = re.fullmatch(r"\s*([0-9]{1,5})(?:-([0-9]{1,5}))?\s*", part)
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise ValueError(f'{text!r} is not a list of CPUs; write it like "0-3,8"')
        cpus.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(cpus)


def format_cpus(cpus: frozenset[int] | set[int]) -> str:
    """Return a set of CPU numbers in the kernel's notation."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in ranges)
