"""Durations and sizes as fields of the experiment's models: read from text, and written as text."""

from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

from dballoc.experiment.durations_and_sizes import (
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)

Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
]
Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(format_size, return_type=str),
]
