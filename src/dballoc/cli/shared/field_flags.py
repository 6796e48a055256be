"""Make a verb's command line for Typer from the fields of the models that it takes, and the models'
values from what was written.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from dballoc.experiment.flag import Flag
from dballoc.ground.errors import UsageError

# An experiment's values by their dotted keys: of the flags that were written.
Changes = dict[str, Any]
_Verb = Callable[..., None]
_Read = Callable[[Any], Any]


def takes_flags(groups: Iterable[Sequence[str]] = (), **others: Flag) -> Callable[[_Verb], _Verb]:
    """Make a verb's command line. A parameter that is a dataclass stands for its fields, which have
    Typer's options as annotations; a parameter ``Annotated[Changes, MODEL]`` for the fields of
    MODEL that ``groups`` name.

    ``groups``: parameters and fields as --help lists them, a model's fields by dotted keys; empty
    for all as they are declared. ``others``: flags of a model's fields by the last part of their
    keys, where this verb has another than the model.
    """
    order = [key for group in groups for key in group]

    def decorate(verb: _Verb) -> _Verb:
        hints = get_type_hints(verb, include_extras=True)
        parameters = dict(_list_parameters(inspect.signature(verb).parameters, hints))
        models = {name: get_args(h)[1] for name, h in hints.items() if _is_changes(h)}
        readers: dict[str, _Read] = {}
        for key in (key for key in order if key not in parameters):
            [model] = models.values()
            parameters[key], readers[key] = _make_parameter(model, key, others)

        @wraps(verb)
        def run(**written: Any) -> None:
            texts = {key: written.get(parameters[key].name) for key in readers}
            changes = {k: readers[k](text) for k, text in texts.items() if text is not None}
            verb(**_fill(hints, written), **dict.fromkeys(models, changes))

        signature = inspect.Signature([parameters[name] for name in order or parameters])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {}
        return run

    return decorate


def _is_changes(hint: Any) -> bool:
    return get_origin(hint) is Annotated and get_args(hint)[0] == Changes


def _list_parameters(
    declared: Mapping[str, Any], hints: Mapping[str, Any]
) -> Iterator[tuple[str, inspect.Parameter]]:
    """Yield parameters of a function or fields of a dataclass, by name. For one that is a dataclass
    its fields.
    """
    for name, place in declared.items():
        hint = hints[name]
        if dataclasses.is_dataclass(hint):
            fields = {field.name: field for field in dataclasses.fields(hint)}
            yield from _list_parameters(fields, get_type_hints(hint, include_extras=True))
        elif not _is_changes(hint):
            missing = place.default in (inspect.Parameter.empty, dataclasses.MISSING)
            default = inspect.Parameter.empty if missing else place.default
            yield name, _make_keyword(name, hint, default)


def _make_keyword(name: str, hint: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _fill(hints: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the written values by parameter or field: an instance for a dataclass."""
    values = {name: written[name] for name in hints if name in written}
    for name, hint in hints.items():
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            values[name] = hint(**_fill(get_type_hints(hint, include_extras=True), written))
    return values


def make_option(flag: Flag) -> Any:
    """Return Typer's option for a flag."""
    return typer.Option(flag.name, metavar=flag.metavar, help=flag.help)


def name_flag(model: Any, key: str) -> str:
    """Return the name of the flag of a model's field: the first, without dashes."""
    name = _find_flag(_find_field(model, key)).name
    return name.strip("-").partition("/")[0].replace("-", "_")


def _make_parameter(
    model: Any, key: str, others: Mapping[str, Flag]
) -> tuple[inspect.Parameter, _Read]:
    """Return the parameter for the model's field of that dotted key, and what reads its value."""
    field = _find_field(model, key)
    flag = others.get(key.rpartition(".")[2]) or _find_flag(field)
    kind, read = flag.written or _choose_type(flag, _without_none(field.annotation))
    hint = Annotated[kind | None, make_option(flag)]  # type: ignore[valid-type]
    return _make_keyword(key.replace(".", "_"), hint), read


def _find_field(model: Any, key: str) -> Any:
    """Return pydantic's entry of a model's field."""
    *sections, last = key.split(".")
    for section in sections:
        model = _without_none(model.model_fields[section].annotation)
    return model.model_fields[last]


def _find_flag(field: Any) -> Flag:
    return next(item for item in field.metadata if isinstance(item, Flag))


def _without_none(hint: Any) -> Any:
    """Return the type of a value, without ``| None`` and without annotations."""
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if NoneType in get_args(bare):
        return _without_none(next(kind for kind in get_args(bare) if kind is not NoneType))
    return bare


def _choose_type(flag: Flag, hint: Any) -> tuple[Any, _Read]:
    """Return the type of the written value, and the function that makes the field's value of it.
    Text is kept where the model reads text: times, sizes.
    """
    if get_origin(hint) is dict:
        return list[str], partial(parse_pairs, flag=flag.name)
    if get_origin(hint) is list:
        numeric = _without_none(get_args(hint)[0]) is int
        return str, partial(parse_numbers, flag=flag.name) if numeric else parse_words
    return (hint if flag.metavar in (None, "N") else str), _keep


def _keep(value: Any) -> Any:
    return value


def parse_words(text: str) -> list[str]:
    """Split ``a,b`` into a list."""
    return [word.strip() for word in text.split(",") if word.strip()]


def parse_numbers(text: str, flag: str) -> list[int]:
    """Parse ``1,16,64`` into numbers. Raises UsageError with the flag's name for anything else."""
    try:
        return [int(word) for word in parse_words(text)]
    except ValueError:
        raise UsageError(
            f"{flag}: {text!r} is not a list of numbers; write it like 1,16,64"
        ) from None


def parse_pairs(texts: list[str], flag: str) -> dict[str, str]:
    """Parse ``["a=1"]`` into a mapping. Raises UsageError for an item without ``=``."""
    for text in texts:
        if "=" not in text:
            raise UsageError(
                f"{flag}: {text!r} has no '='; write it like {flag} innodb_buffer_pool_size=1G"
            )
    return {k.strip(): v.strip() for k, _, v in (text.partition("=") for text in texts)}
