"""Whether the settings in a process's environment have an effect on its malloc: by what the malloc
shows in the process, else by the catalogue's names and ranges. Pure.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dballoc.allocators import tunables
from dballoc.allocators.find_library import Allocator

# applied: seen in the process; none: it has no effect; unknown: neither can be told from outside.
Effect = Literal["applied", "none", "unknown"]

_VALID = "{title} does not show from outside what it applied; name and value are valid"


@dataclass(frozen=True, kw_only=True)
class SettingEffect:
    """What became of one setting. ``variable``: of the environment; ``setting``: as it is written
    there, ``MALLOC_ARENA_MAX=2``, ``narenas:2``; ``reason``: why it has no effect, or why that
    cannot be told.
    """

    variable: str
    setting: str
    effect: Effect
    reason: str = ""

    @property
    def words(self) -> str:
        """What became of it, in words."""
        match self.effect:
            case "applied":
                return "applied"
            case "none":
                return f"has no effect: {self.reason}"
            case "unknown":
                return f"cannot tell: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class SettingInForce:
    """A setting as a process has it. ``value``: the number or word that is in force, None if it is
    not known; ``is_set``: it was set from outside.
    """

    value: str | None
    is_set: bool


@dataclass(frozen=True, kw_only=True)
class MallocSettings:
    """What is known of a malloc's settings in a process. ``in_force``: by a setting's name, those
    that the process shows; ``names``: all that its file or loader has, None if it does not list
    them; ``privileged``: why the program was started privileged, None if it was not; ``by_malloc``:
    the malloc itself shows them, not the loader, which takes more than the malloc does.
    """

    in_force: Mapping[str, SettingInForce]
    names: Collection[str] | None = None
    privileged: str | None = None
    by_malloc: bool = False


def judge_settings(
    allocator: Allocator, variables: Mapping[str, str], evidence: MallocSettings
) -> list[SettingEffect]:
    """Judge each setting in ``variables``, the part of an environment that this allocator reads."""
    family = tunables.find_family(allocator)
    if family is None:
        return []
    return [
        effect
        for variable, text in variables.items()
        for effect in _judge_variable(allocator, family, variable, text, evidence)
    ]


def _judge_variable(
    allocator: Allocator, family: dict[str, Any], variable: str, text: str, evidence: MallocSettings
) -> Iterable[SettingEffect]:
    entry = allocator.entry
    style = entry["tunables"]
    if evidence.privileged and entry.get("privileged") == "ignores":
        reason = f"ignored, as the program was started privileged ({evidence.privileged})"
        yield SettingEffect(
            variable=variable, setting=f"{variable}={text}", effect="none", reason=reason
        )
        return
    if "join" not in style or variable != style["env"]:
        start, _, rest = style.get("env", "").partition("{")
        setting_name = tunables.find_setting_of_variable(family, variable)
        if setting_name is None and not rest:
            reason = tunables.refuse_variable(allocator, family, variable)
            yield SettingEffect(
                variable=variable, setting=f"{variable}={text}", effect="none", reason=reason
            )
            return
        name = setting_name or variable.removeprefix(start).lower()
        yield _judge(allocator, family, variable, f"{variable}={text}", (name, text), evidence)
        return
    is_cut = False
    for item in filter(None, text.split(style["join"])):
        pair = tunables.parse_item(style, item) or _parse_other(style, item)
        if pair is None or is_cut:
            form = style["item"].format(name="NAME", value="VALUE")
            reason = f"not of the form {form}"
            if pair is not None:
                reason = (
                    f"{entry['title']} reads nothing behind a part that is not of the form {form}"
                )
            is_cut = is_cut or bool(style.get("stops"))
            yield SettingEffect(variable=variable, setting=item, effect="none", reason=reason)
        elif item in (*style.get("always", ()), *style.get("strict", ())):
            continue  # what dballoc adds
        else:
            yield _judge(allocator, family, variable, item, pair, evidence)


def _parse_other(style: Mapping[str, Any], item: str) -> tuple[str, str] | None:
    """Return the name and value of an item of another part of glibc: ``glibc.pthread.rseq=0``."""
    name, equals, value = item.partition("=")
    is_glibc = style["item"].startswith("glibc.") and name.startswith("glibc.")
    return (name, value) if is_glibc and equals else None


def _judge(
    allocator: Allocator,
    family: dict[str, Any],
    variable: str,
    setting: str,
    pair: tuple[str, str],
    evidence: MallocSettings,
) -> SettingEffect:
    name, value = pair
    fault = tunables.find_fault(allocator, family, name, value, evidence.names)
    effect, reason = _decide(allocator, family, pair, fault, evidence)
    return SettingEffect(variable=variable, setting=setting, effect=effect, reason=reason)


def _decide(
    allocator: Allocator,
    family: dict[str, Any],
    pair: tuple[str, str],
    fault: str | None,
    evidence: MallocSettings,
) -> tuple[Effect, str]:
    """Return the effect of a setting, and the reason. ``fault``: what the catalogue has against
    it.
    """
    name, value = pair
    row = family["settings"].get(name, {"kind": "text"})
    shown = evidence.in_force.get(name)
    if shown is None:
        if fault:
            return "none", fault
        return "unknown", _VALID.format(title=allocator.entry["title"])
    if not shown.is_set:
        return "none", fault or f"{allocator.entry['title']} did not take it"
    if shown.value is None:
        return ("none", fault) if fault else ("applied", "")
    word = row.get("shows", {}).get(shown.value, shown.value)
    if not tunables.is_same_value(family, row, value, word):
        return "none", f"{fault}; {word} is in force" if fault else f"{word} is in force"
    return ("none", fault) if fault and not evidence.by_malloc else ("applied", "")
