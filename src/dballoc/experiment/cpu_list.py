"""Parse and format lists of CPUs in the kernel's notation, ``"0-3,8"``."""

import re

# Characters of a list: 8192 CPUs, none beside another, and room for blanks.
_LONGEST = 50_000


def parse_cpus(text: str) -> frozenset[int]:
    """Parse the CPU numbers of ``"0-3,8"``. Raises ValueError if it is not such a list, or is
    empty.
    """
    first_and_last: list[tuple[int, int]] = []
    for part in text[: _LONGEST + 1].split(","):
        # Linux numbers 8192 CPUs at most.
        match = re.fullmatch(r"\s*([0-9]{1,5})(?:-([0-9]{1,5}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if len(text) > _LONGEST or last < first:
            shown = text if len(text) <= 100 else f"{text[:100]}…"
            raise ValueError(f'{shown!r} is not a list of CPUs; write it like "0-3,8"')
        first_and_last.append((first, last))
    cpus: set[int] = set()
    highest = -1
    for first, last in sorted(first_and_last):
        cpus.update(range(max(first, highest + 1), last + 1))
        highest = max(highest, last)
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
