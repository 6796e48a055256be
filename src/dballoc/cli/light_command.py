"""Read a command line without pydantic where plain Python does. Typer imports pydantic to convert
any value, even one that is missing: a quarter of the time of a whole ``dballoc explain``.
"""

from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup, TyperOption

if TYPE_CHECKING:
    _Command = TyperCommand
else:
    _Command = object

# More digits than a PID or a port has are left to Typer.
_MOST_DIGITS = 18


class _WithLightOptions(_Command):
    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, --help among them."""
        parameters = super().get_params(ctx)
        for parameter in parameters:
            if type(parameter) is TyperOption:
                parameter.__class__ = _LightOption
        return parameters


class LightCommand(_WithLightOptions, TyperCommand):
    """A verb whose values are those that Typer makes."""


class LightGroup(_WithLightOptions, TyperGroup):
    """The same of a list of verbs."""


class _LightOption(TyperOption):
    """An option that converts texts and whole numbers itself. Other types and every refusal are
    left to Typer.
    """

    def process_value(self, ctx: Any, value: Any) -> Any:
        """Return the value of a text of the command line, or of a default."""
        if self.required or self.multiple:
            return super().process_value(ctx, value)
        if value is None:
            return self.callback(ctx, self, None) if self.callback else None
        # Typer before 0.25 has no such descriptor, and imports no pydantic.
        descriptor = getattr(self, "type_descriptor", None)
        if self.callback or descriptor is None or descriptor.parameter_info.parser:
            return super().process_value(ctx, value)
        if descriptor.annotation in (str, int, float) and type(value) is descriptor.annotation:
            return value
        if descriptor.annotation is int and _is_number(value):
            number = int(value)
            if (self.min is None or number >= self.min) and (
                self.max is None or number <= self.max
            ):
                return number
        return super().process_value(ctx, value)


def _is_number(value: Any) -> bool:
    """Tell whether this is a text of ASCII digits alone, and of not too many."""
    if not isinstance(value, str) or len(value) > _MOST_DIGITS:
        return False
    return value.isascii() and value.isdecimal()
