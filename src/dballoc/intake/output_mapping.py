"""Read a directory of sysbench's outputs, with the mapping file that tells which is which."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from dballoc import readers
from dballoc.errors import UsageError
from dballoc.intake import sysbench_totals
from dballoc.intake.imported_figure import HERE, Figure

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


class Mapping(BaseModel):
    """The mapping file. ``files``: a pattern of file names below the directory, like
    ``{variant}/{workload}-{threads}.txt``; ``*`` is any text without a slash. What the names do not
    hold is given by the key of that name. ``variants``, ``workloads``, ``machines``: what the words
    in file names stand for.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: Annotated[str, AfterValidator(_check_pattern)]
    workload: str | None = None
    variant: str | None = None
    machine: str | None = None
    threads: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    block: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    variants: dict[str, str] = {}
    workloads: dict[str, str] = {}
    machines: dict[str, str] = {}


@dataclass(frozen=True)
class Outputs:
    """``figures`` and the ``files`` that they are from; ``unmatched``: files that do not fit the
    pattern.
    """

    figures: list[Figure]
    files: list[Path]
    unmatched: list[Path]


def read_outputs(directory: Path, mapping_file: Path | None = None) -> Outputs:
    """Read all outputs that fit the mapping's pattern. ``mapping_file``: default is import.toml in
    the directory. UsageError, with FILE:LINE where it is about a line.
    """
    path = mapping_file or directory / FILE
    mapping = _read_mapping(path)
    try:
        paths = sorted(p for p in directory.rglob("*") if p.is_file() and p != path)
    except OSError as error:
        raise UsageError(f"{error.filename or directory}: {error.strerror}") from None
    if not paths:
        raise UsageError(f"{directory}: empty: no output of sysbench in it")
    pattern = _compile_pattern(mapping.files)
    matches = {p: m for p in paths if (m := pattern.fullmatch(p.relative_to(directory).as_posix()))}
    if not matches:
        example = paths[0].relative_to(directory)
        raise UsageError(
            f"{path}: files: no file matches {mapping.files!r}; the first of {len(paths)} is "
            f"{example}"
        )
    return Outputs(
        figures=[_read_figure(mapping, p, match.groupdict(), path) for p, match in matches.items()],
        files=list(matches),
        unmatched=[p for p in paths if p not in matches],
    )


def _read_mapping(path: Path) -> Mapping:
    try:
        if not path.exists():
            raise UsageError(
                f"{path}: missing; a directory of sysbench's outputs needs it, see docs/import.md"
            )
        return Mapping.model_validate(readers.table(readers.text(path)))
    except readers.Unfit as error:
        raise UsageError(f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise UsageError(
                f"{path}: unknown key {key}; known here: {', '.join(Mapping.model_fields)}"
            ) from None
        text = (
            str(first["ctx"]["error"]) if first["type"] == "value_error" else first["msg"].lower()
        )
        raise UsageError(f"{path}: {key}: {text}") from None


def _compile_pattern(pattern: str) -> re.Pattern[str]:
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


def _read_figure(
    mapping: Mapping, path: Path, fields: dict[str, str], mapping_file: Path
) -> Figure:
    """Return one output's figure. ``fields``: what its file name holds."""
    try:
        text = readers.text(path, 16 * readers.MIB, errors="replace")
    except readers.Unfit as error:
        raise UsageError(f"{path}: {error}") from None
    totals = sysbench_totals.parse_totals(text, str(path))
    mapped_threads = fields.get("threads") or mapping.threads
    if mapped_threads and totals.threads and int(mapped_threads) != totals.threads:
        raise UsageError(
            f"{path}:1: thread count mismatch: {mapping_file} says {int(mapped_threads)}, "
            f"sysbench's output says {totals.threads}"
        )
    threads = int(mapped_threads) if mapped_threads else totals.threads
    words = {
        "workload": mapping.workloads.get(
            fields.get("workload", ""), fields.get("workload") or mapping.workload
        ),
        "variant": mapping.variants.get(
            fields.get("variant", ""), fields.get("variant") or mapping.variant
        ),
    }
    if missing := [field for field, value in {**words, "threads": threads}.items() if not value]:
        raise UsageError(
            f"{mapping_file}: {missing[0]}: neither the pattern nor a key gives it; "
            f"write {{{missing[0]}}} into files, or add a key {missing[0]}"
        )
    assert words["workload"] and words["variant"] and threads
    return Figure(
        place=f"{path}:1",
        workload=words["workload"],
        threads=threads,
        variant=words["variant"],
        tps=totals.tps,
        machine=mapping.machines.get(
            fields.get("machine", ""), fields.get("machine") or mapping.machine or HERE
        ),
        block=int(fields.get("block") or mapping.block or 1),
        qps=totals.qps,
        p95=totals.p95,
        p99=totals.p99,
        rss=None,
        seconds=totals.seconds,
    )
