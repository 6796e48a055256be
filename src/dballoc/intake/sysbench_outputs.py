"""A directory of sysbench's outputs, and the file that says what each of them is of."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from dballoc import readers
from dballoc.errors import UsageError
from dballoc.intake import sysbench_totals
from dballoc.intake.imported_figure import HERE, Figure

# Looked for in the directory where nobody names another.
FILE = "import.toml"

FIELDS = ("workload", "threads", "variant", "block", "machine")
_NUMBERS = ("threads", "block")
_PART = re.compile(r"\{([^{}]+)\}|(\*)|([^{}*]+)|([{}])")


def _pattern(text: str) -> str:
    for field, _, _, stray in _PART.findall(text):
        if stray:
            raise ValueError(f"{stray!r} stands alone")
        if field and field not in FIELDS:
            raise ValueError(f"unknown field {{{field}}}; known are {', '.join(FIELDS)}")
    fields = [field for field, *_ in _PART.findall(text) if field]
    if twice := {f for f in fields if fields.count(f) > 1}:
        raise ValueError(f"{{{twice.pop()}}} is there twice")
    return text


class Key(BaseModel):
    """``files``: a pattern of file names below the directory, like
    ``{variant}/{workload}-{threads}.txt``; ``*`` is any text without a slash. What the names do not
    hold is said by a key of its name. ``variants``, ``workloads``, ``machines``: what the names in
    file names stand for.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: Annotated[str, AfterValidator(_pattern)]
    workload: str | None = None
    variant: str | None = None
    machine: str | None = None
    threads: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    block: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    variants: dict[str, str] = {}
    workloads: dict[str, str] = {}
    machines: dict[str, str] = {}


def read(
    directory: Path, chosen: Path | None = None
) -> tuple[list[Figure], list[Path], list[Path]]:
    """(the figures, the files that they are from, those that do not fit the pattern). ``chosen``:
    the mapping file, where it is not import.toml in the directory. UsageError, ``FILE:LINE: …``
    where a line is to blame.
    """
    path = chosen or directory / FILE
    key = _key(path)
    try:
        every = sorted(p for p in directory.rglob("*") if p.is_file() and p != path)
    except OSError as error:
        raise UsageError(f"{error.filename or directory}: {error.strerror}") from None
    if not every:
        raise UsageError(f"{directory}: empty: no output of sysbench in it")
    pattern = _compiled(key.files)
    fits = {p: m for p in every if (m := pattern.fullmatch(p.relative_to(directory).as_posix()))}
    if not fits:
        example = every[0].relative_to(directory)
        raise UsageError(
            f"{path}: files: no file fits {key.files!r}; the first of {len(every)} is {example}"
        )
    figures = [_figure(key, p, match.groupdict(), path) for p, match in fits.items()]
    return figures, list(fits), [p for p in every if p not in fits]


def _key(path: Path) -> Key:
    try:
        if not path.exists():
            raise UsageError(
                f"{path}: not there; a directory of sysbench's outputs needs it, see docs/import.md"
            )
        return Key.model_validate(readers.table(readers.text(path)))
    except readers.Unfit as error:
        raise UsageError(f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise UsageError(
                f"{path}: unknown key {where}; known here: {', '.join(Key.model_fields)}"
            ) from None
        text = (
            str(first["ctx"]["error"]) if first["type"] == "value_error" else first["msg"].lower()
        )
        raise UsageError(f"{path}: {where}: {text}") from None


def _compiled(pattern: str) -> re.Pattern[str]:
    """Fields hold no slash, and as little as fits; numbers hold digits alone."""
    parts = []
    for field, star, text, _ in _PART.findall(pattern):
        if field:
            parts.append(
                rf"(?P<{field}>[0-9]{{1,9}})" if field in _NUMBERS else rf"(?P<{field}>[^/]+?)"
            )
        else:
            parts.append("[^/]*" if star else re.escape(text))
    return re.compile("".join(parts))


def _figure(key: Key, path: Path, found: dict[str, str], origin: Path) -> Figure:
    try:
        text = readers.text(path, 16 * readers.MIB, errors="replace")
    except readers.Unfit as error:
        raise UsageError(f"{path}: {error}") from None
    totals = sysbench_totals.parse(text, str(path))
    named = found.get("threads") or key.threads
    if named and totals.threads and int(named) != totals.threads:
        raise UsageError(
            f"{path}:1: of {named} threads by {origin}, of {totals.threads} by its own words"
        )
    threads = int(named) if named else totals.threads
    words = {
        "workload": key.workloads.get(
            found.get("workload", ""), found.get("workload") or key.workload
        ),
        "variant": key.variants.get(found.get("variant", ""), found.get("variant") or key.variant),
    }
    if missing := [field for field, value in {**words, "threads": threads}.items() if not value]:
        raise UsageError(
            f"{origin}: {missing[0]}: neither the pattern nor a key says it; write "
            f"{{{missing[0]}}} into files, or a key "
            f"{missing[0]}"
        )
    assert words["workload"] and words["variant"] and threads
    return Figure(
        place=f"{path}:1",
        workload=words["workload"],
        threads=threads,
        variant=words["variant"],
        tps=totals.tps,
        machine=key.machines.get(
            found.get("machine", ""), found.get("machine") or key.machine or HERE
        ),
        block=int(found.get("block") or key.block or 1),
        qps=totals.qps,
        p95=totals.p95,
        p99=totals.p99,
        rss=None,
        seconds=totals.seconds,
    )
