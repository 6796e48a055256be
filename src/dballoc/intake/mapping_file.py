"""The mapping file ``import.toml``: what the files of a directory are of, as far as they do not say
it.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from dballoc.ground import readers
from dballoc.ground.errors import UsageError

# The mapping file in the directory, unless another one is named.
FILE = "import.toml"

FIELDS = ("workload", "threads", "variant", "block", "machine")
_NUMBERS = ("threads", "block")
_PART = re.compile(r"\{([^{}]+)\}|(\*)|([^{}*]+)|([{}])")


def _check_pattern(text: str) -> str:
    for field, _, _, stray in _PART.findall(text):
        if stray:
            raise ValueError(f"unmatched {stray!r}")
        if field and field not in FIELDS:
            raise ValueError(f"unknown field {{{field}}}; known are {', '.join(FIELDS)}")
    fields = [field for field, *_ in _PART.findall(text) if field]
    if repeated := {f for f in fields if fields.count(f) > 1}:
        raise ValueError(f"{{{repeated.pop()}}} appears twice")
    return text


Pattern = Annotated[str, AfterValidator(_check_pattern)]
_Number = Annotated[int, Field(ge=1, lt=2**31)]
# What the numbers of stacks count; see :mod:`dballoc.intake.stack_profiles`.
Counts = Literal["waits", "waited", "wakeups", "cpu"]


class FilePattern(BaseModel):
    """What all files of a pattern are of, as far as their names do not say it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workload: str | None = None
    variant: str | None = None
    machine: str | None = None
    threads: _Number | None = None


class StackFiles(FilePattern):
    """``[[stacks]]``: files of call stacks. ``process``: whose, in a trace of a whole machine."""

    files: Pattern
    counts: Counts = "waits"
    process: str | None = None


class MemoryFiles(FilePattern):
    """``[[memory]]``: files of readings of a server's memory. ``process``: the server's name or
    number, where a file has several.
    """

    block: _Number | None = None
    files: Pattern
    process: str | None = None


class TableFiles(FilePattern):
    """``[[tables]]``: files of figures that name their variants and workloads themselves."""

    block: _Number | None = None
    files: Pattern

    @model_validator(mode="after")
    def _check_words(self) -> Self:
        for name in ("variant", "workload"):
            if getattr(self, name) is not None or f"{{{name}}}" in self.files:
                raise ValueError(f"{name}: a table of figures has it itself")
        return self


class MappingFile(FilePattern):
    """The mapping file. ``files``: a pattern of the names of outputs of load generators below the
    directory, like ``{variant}/{workload}-{threads}.txt``; ``*`` is any text without a slash. What
    the names do not hold is given by the key of that name. ``variants``, ``workloads``,
    ``machines``: what the words in file names and tables stand for.
    """

    block: _Number | None = None
    files: Pattern | None = None
    stacks: Annotated[list[StackFiles], Field(max_length=100)] = []
    memory: Annotated[list[MemoryFiles], Field(max_length=100)] = []
    tables: Annotated[list[TableFiles], Field(max_length=100)] = []
    variants: dict[str, str] = {}
    workloads: dict[str, str] = {}
    machines: dict[str, str] = {}

    @model_validator(mode="after")
    def _check_patterns(self) -> Self:
        if self.files is None and not self.stacks and not self.memory and not self.tables:
            raise ValueError(
                "no pattern: give files (outputs of sysbench and others), [[tables]], [[stacks]] "
                "or [[memory]]"
            )
        return self

    def resolve(self, table: FilePattern, fields: Mapping[str, str]) -> dict[str, Any]:
        """Return what a file is of, by :data:`FIELDS`: what its name holds (``fields``), else the
        key of its ``table``, else that of the whole mapping file; None for what none of them gives.
        """
        words: dict[str, Any] = {}
        for name in FIELDS:
            key = getattr(table, name, None)
            value = fields.get(name) or (getattr(self, name) if key is None else key)
            words[name] = int(value) if value and name in _NUMBERS else value
        for name, substitutes in (
            ("variant", self.variants),
            ("workload", self.workloads),
            ("machine", self.machines),
        ):
            words[name] = substitutes.get(fields.get(name, ""), words[name])
        return words


def read_mapping(path: Path) -> MappingFile:
    """Read the mapping file. UsageError in one line if it is missing or wrong."""
    try:
        if not path.exists():
            raise UsageError(
                f"{path}: missing; a directory of files to import needs it, see docs/import.md"
            )
        with readers.naming(path):
            return MappingFile.model_validate(readers.table(readers.text(path)))
    except ValidationError as error:
        raise UsageError(f"{path}: {_describe(error)}") from None


def _describe(error: ValidationError) -> str:
    first = error.errors()[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        models: dict[str, type[FilePattern]] = {
            "stacks": StackFiles,
            "memory": MemoryFiles,
            "tables": TableFiles,
        }
        model = (
            models.get(str(first["loc"][0]), MappingFile) if len(first["loc"]) > 1 else MappingFile
        )
        return f"unknown key {key}; known here: {', '.join(model.model_fields)}"
    text = str(first["ctx"]["error"]) if first["type"] == "value_error" else first["msg"].lower()
    return f"{key}: {text}" if key else text


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the pattern as a regular expression: fields match no slash, and as little as fits;
    numbers match digits alone.
    """
    parts = []
    for field, star, text, _ in _PART.findall(pattern):
        if field:
            parts.append(
                rf"(?P<{field}>[0-9]{{1,9}})" if field in _NUMBERS else rf"(?P<{field}>[^/]+?)"
            )
        else:
            parts.append("[^/]*" if star else re.escape(text))
    return re.compile("".join(parts))
