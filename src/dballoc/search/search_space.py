"""What a search may set: the knobs of an allocator, as catalogue/tunables.toml has them (``search``
and ``presets``), the host's THP mode, and server options that the user names. Pure.

A search's parameters are a mapping of names to values as text, as a sweep has them: a setting of
the malloc by its own name, ``server.NAME`` an option of the server, :data:`THP` the host's mode.
What is not in it is left as the default has it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dballoc import catalogue
from dballoc.allocators import tunables
from dballoc.allocators.find_library import Allocator
from dballoc.experiment.model import Tune, Variant
from dballoc.experiment.sweep import evaluate_expression
from dballoc.ground.errors import UsageError
from dballoc.ground.numbers import listing
from dballoc.servers.private.reserved_options import is_one_of

# The host's THP mode; jemalloc has a setting ``thp`` of its own.
THP = "host.thp"
SERVER = "server."

Parameters = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Knob:
    """One thing that may be set, or left alone. ``words``: the values it may have; empty: whole
    numbers from ``least`` to ``most``. ``log``: small ones as densely as large ones; ``powers``:
    only powers of two. ``needs``: parameters without which it does nothing.
    """

    name: str
    words: tuple[str, ...] = ()
    least: int = 0
    most: int = 0
    log: bool = False
    powers: bool = False
    needs: Parameters = field(default_factory=dict)

    def is_active(self, parameters: Parameters) -> bool:
        """Whether it does anything beside these parameters."""
        return all(parameters.get(name) == value for name, value in self.needs.items())

    def takes(self, value: str) -> bool:
        """Whether a value is one that the search may propose."""
        if self.words:
            return value in self.words
        if not value.isdigit() or not self.least <= int(value) <= self.most:
            return False
        return not self.powers or int(value).bit_count() == 1

    @property
    def ends(self) -> tuple[str, ...]:
        """Its first and its last value."""
        if self.words:
            return tuple(dict.fromkeys((self.words[0], self.words[-1])))
        least, most = self.least, self.most
        if self.powers:
            least, most = 2 ** (least - 1).bit_length(), 2 ** (most.bit_length() - 1)
        return tuple(dict.fromkeys((str(least), str(most))))


@dataclass(frozen=True, kw_only=True)
class Space:
    """What is searched for one allocator: its ``knobs``, those that need others last, and the
    ``presets`` that are tried first.
    """

    knobs: tuple[Knob, ...]
    presets: tuple[Parameters, ...]

    def takes(self, parameters: Parameters) -> bool:
        """Whether a configuration is one that the search may propose."""
        knobs = {knob.name: knob for knob in self.knobs}
        return all(n in knobs and knobs[n].takes(value) for n, value in parameters.items())

    @property
    def of_malloc(self) -> "Space":
        """Its part that a replay without a server has: the malloc's own settings."""
        knobs = [k for k in self.knobs if k.name != THP and not k.name.startswith(SERVER)]
        return Space(knobs=tuple(knobs), presets=self.presets)

    @property
    def singles(self) -> tuple[Parameters, ...]:
        """Each knob alone, with what it needs, at either end: what it is worth for itself."""
        return tuple({**k.needs, k.name: value} for k in self.knobs for value in k.ends)


def build_space(
    allocator: Allocator, tune: Tune, cores: int, thp_modes: Sequence[str] = ()
) -> Space:
    """Return the space of an allocator of that version on so many CPUs; ``thp_modes``: those of the
    host that are tried.
    """
    family = tunables.find_family(allocator) or {"settings": {}}
    rows = {
        name: row
        for name, row in family["settings"].items()
        if "search" in row and tunables.is_in_version(row, allocator.version)
    }
    knobs = [
        _make_knob(name, row, tunables.find_maximum(row, allocator.version), cores)
        for name, row in rows.items()
        if name not in tune.leave
    ]
    if thp_modes:
        knobs.append(Knob(name=THP, words=tuple(thp_modes)))
    knobs += [Knob(name=SERVER + name, words=tuple(v)) for name, v in tune.space.items()]
    knobs.sort(key=lambda knob: len(knob.needs))
    # Without what it needs, because the user leaves that alone, a knob does nothing.
    by_name: dict[str, Knob] = {}
    for knob in knobs:
        if knob.needs.keys() <= by_name.keys():
            by_name[knob.name] = knob
    presets = [
        {name: _evaluate(text, cores) for name, text in preset["settings"].items()}
        for preset in (family.get("presets", []) if tune.presets else [])
    ]
    return Space(
        knobs=tuple(by_name.values()),
        presets=tuple(
            p
            for i, p in enumerate(presets)
            if p not in presets[:i] and all(n in by_name and by_name[n].takes(p[n]) for n in p)
        ),
    )


def check_left_alone(tune: Tune, allocators: list[Allocator]) -> None:
    """Raises UsageError for a setting in ``tune.leave`` that no allocator of the search has."""
    families = [tunables.find_family(allocator) or {"settings": {}} for allocator in allocators]
    for name in tune.leave:
        if not any(name in family["settings"] for family in families):
            names = ", ".join(allocator.name for allocator in allocators)
            raise UsageError(f"tune.leave: {name!r} is not a setting of {names}")


def check_safe(tune: Tune) -> None:
    """Raises UsageError for an option of the server whose gain would be paid in safety
    (catalogue/options.toml), and for a malloc's setting.
    """
    for option in tune.space:
        families = [
            name for name, family in catalogue.tunables().items() if option in family["settings"]
        ]
        if families:
            raise UsageError(
                f"tune.space: {option} is a setting of {listing(families)}, and [tune.space] has "
                "options of the server; settings are searched by themselves: dballoc list settings"
            )
        for group in catalogue.foreign_options()["unsafe"]:
            if is_one_of(option, group["options"]):
                raise UsageError(
                    f"tune.space: {option} is not searched: {group['why']}; if you want another "
                    "value, set it in server.options"
                )


def check_changeable(tune: Tune, fixed: Collection[str]) -> None:
    """Raises UsageError for an option that the server's data are made with, one of ``fixed``
    (catalogue/servers.toml): all trials of a search have the same data.
    """
    for option in tune.space:
        if is_one_of(option, fixed):
            raise UsageError(
                f"tune.space: {option} is not searched: data are made with it, and all trials have "
                "the same data; to compare its values, give each a [[variant]] and run dballoc "
                "bench"
            )


def _make_knob(name: str, row: Mapping[str, Any], most_taken: float, cores: int) -> Knob:
    search = row["search"]
    needs = search.get("needs", {})
    if "values" in search:
        return Knob(name=name, words=tuple(search["values"]), needs=needs)
    least, most = (int(_evaluate(search[key], cores)) for key in ("least", "most"))
    return Knob(
        name=name,
        least=least,
        most=int(min(most, most_taken)),
        log=search.get("log", False),
        powers=row["kind"] == "size" and search.get("log", False),
        needs=needs,
    )


def _evaluate(text: str, cores: int) -> str:
    return str(evaluate_expression(text, cores)) if "cores" in text else text


def apply_parameters(base: Variant, parameters: Parameters, name: str) -> Variant:
    """Return the variant that ``base`` becomes with these parameters."""
    settings, options = dict(base.tunables), dict(base.server.options)
    changes: dict[str, Any] = {}
    for key, value in parameters.items():
        if key == THP:
            changes["thp"] = value
        elif key.startswith(SERVER):
            options[key.removeprefix(SERVER)] = value
        else:
            settings[key] = value
    server = base.server.model_copy(update={"options": options})
    return base.model_copy(update={"name": name, "tunables": settings, "server": server, **changes})


def describe_parameters(parameters: Parameters) -> str:
    """Return ``arena_max=1, top_pad=4096``; ``as it is`` for none."""
    return ", ".join(f"{name}={value}" for name, value in parameters.items()) or "as it is"
