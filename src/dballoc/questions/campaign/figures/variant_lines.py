"""Name the lines of a chart whose points are variants: those that differ in one thing alone, such
as their number of CPUs, are one line. Pure.
"""

import string
from collections.abc import Callable, Sequence
from itertools import takewhile

from dballoc.experiment.model import Experiment, Variant

# What stands in a name between what lines have in common and what its points differ in.
_PUNCTUATION = "._+=@-"


def name_lines(
    experiment: Experiment,
    variants: Sequence[Variant],
    describe: Callable[[Variant], str],
    endings: Sequence[str] = (),
) -> dict[str, str]:
    """Return the name of each variant's line: what the names of its variants have in common,
    ``glibc`` of ``glibc_4cpu`` and ``glibc_8cpu``, else the first one's. ``describe``: what the
    variants of a line have in common; ``endings``: what a line's name does not end with, such as
    the option whose values its variants are.
    """
    lines: dict[str, list[str]] = {}
    for variant in variants:
        lines.setdefault(describe(variant), []).append(variant.name)
    names: dict[str, str] = {}
    for members in lines.values():
        # Of x1 and x16 the common beginning has a digit of the numbers of CPUs.
        common = _find_common_beginning(members).rstrip(string.digits).rstrip(_PUNCTUATION)
        for ending in endings:
            common = common.removesuffix(ending).rstrip(_PUNCTUATION)
        other_names = {v.name for v in experiment.variant} - set(members) | set(names.values())
        if len(members) == 1 or not common or common in other_names:
            common = members[0]
        names |= dict.fromkeys(members, common)
    return names


def _find_common_beginning(names: list[str]) -> str:
    places = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in places)
