"""Make variants of a malloc that the user gives by the path of its library. Pure."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Table = dict[str, Any]

# What decides, beside server and malloc, what a variant's figures can be compared with.
_PLACE = ("cpu", "thp", "thp_defrag", "thp_sizes")
# Characters that a name may have (:data:`dballoc.experiment.model.Name`), and how many.
_UNFIT = re.compile(r"[^A-Za-z0-9._+=@-]")
LONGEST_NAME = 64
_LIBRARY = re.compile(r"/|\.so(\.|$)")


def is_path(word: str) -> bool:
    """Whether a word of ``--allocators`` is the path of a library, and not an allocator's name."""
    return _LIBRARY.search(word) is not None


def make_variants(path: Path, beside: Sequence[Any], baseline: str | None = None) -> list[Table]:
    """Return the variants of a library ``beside`` others: one for each choice of CPUs and THP that
    these have, on the baseline's server. They are named after the file, and by no name that
    another one has.
    """
    others = [variant for variant in beside if isinstance(variant, dict)]
    server: Table = next(
        (v["server"] for v in others if v.get("name") == baseline and "server" in v), {}
    )
    places: list[Table] = []
    for variant in others or [{}]:
        if (place := {key: variant[key] for key in _PLACE if key in variant}) not in places:
            places.append(place)
    names = {variant.get("name") for variant in others}
    variants: list[Table] = []
    for place in places:
        words = [_name_library(path), *(_name_place(place) if len(places) > 1 else [])]
        name = _choose_name("-".join(words), names)
        names.add(name)
        common = {"server": server} if server else {}
        variants.append(
            {"name": name, "preload": [str(path.expanduser().absolute())], **place, **common}
        )
    return variants


def fit_name(text: str, otherwise: str) -> str:
    """Return a text as a name of a variant or an experiment; ``otherwise``: what it begins with
    where it would begin with another character than a letter or digit.
    """
    name = _UNFIT.sub("-", text)[:LONGEST_NAME]
    return name if name and name[0].isalnum() else f"{otherwise}-{name}"[:LONGEST_NAME]


def _name_library(path: Path) -> str:
    return fit_name(path.name.partition(".so")[0].removeprefix("lib") or path.name, "malloc")


def _name_place(place: Table) -> list[str]:
    """Return the words that tell a choice of CPUs and THP from the others."""
    words = []
    match place.get("cpu"):
        case {"count": int(count)}:
            words.append(f"{count}cpu")
        case {"server": str(cpus)}:
            words.append(f"cpu{cpus}")
    if "thp" in place:
        words.append(f"thp-{place['thp']}")
    return words


def _choose_name(wanted: str, names: set[Any]) -> str:
    """Return a name that no variant has: the wanted one, or with a number."""
    number, name = 1, fit_name(wanted, "malloc")
    while name in names:
        number += 1
        ending = f"-{number}"
        name = fit_name(wanted, "malloc")[: LONGEST_NAME - len(ending)] + ending
    return name
