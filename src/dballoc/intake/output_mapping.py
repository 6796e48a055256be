"""Read a directory of files that were made elsewhere: outputs of load generators, tables of
figures, call stacks, readings of memory; a mapping file tells which is which.
"""

import stat
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.ground.files.foreign_file import Stamp, make_stamp
from dballoc.intake import figure_tables, foreign_kinds, mapping_file
from dballoc.intake.imported_figure import HERE, ImportedFigure
from dballoc.intake.load_outputs import parse_outputs, sysbench_totals
from dballoc.intake.load_outputs.totals import Totals
from dballoc.intake.mapping_file import (
    Counts,
    MappingFile,
    MemoryFiles,
    StackFiles,
    TableFiles,
)

_LARGEST_OUTPUT = 64 * readers.MIB
# Files in the directory, matched or not.
_MOST_FILES = 100_000


@dataclass(frozen=True, kw_only=True)
class StackFile:
    """A file of call stacks, and what they are of; ``machine``: None where nothing says it."""

    path: Path
    variant: str
    workload: str
    threads: int
    machine: str | None
    counts: Counts
    process: str | None


@dataclass(frozen=True, kw_only=True)
class MemoryFile:
    """A file of readings of a server's memory, and the figure that they belong to."""

    path: Path
    variant: str
    workload: str
    threads: int
    machine: str | None
    block: int
    process: str | None


@dataclass(frozen=True, kw_only=True)
class MappedOutputs:
    """What a directory holds. ``files``: all that were read, as they were before; ``unmatched``:
    those that fit no pattern; ``unread``: a line for what is left out of an output.
    """

    figures: list[ImportedFigure]
    stacks: list[StackFile]
    memory: list[MemoryFile]
    files: dict[Path, Stamp]
    unmatched: list[Path]
    unread: list[str]


@dataclass(frozen=True, kw_only=True)
class _LoadRun:
    """A run of a load generator in a file."""

    file: Path
    totals: Totals
    figure: ImportedFigure


# A file, what its name holds, and the table by whose pattern.
_Match = tuple[Path, dict[str, str], Any]


def read_outputs(directory: Path, mapping_path: Path | None = None) -> MappedOutputs:
    """Read all outputs and tables that fit the mapping's patterns, and list the other files that
    fit theirs. ``mapping_path``: default is import.toml in the directory. UsageError, with
    FILE:LINE where it is about a line.
    """
    path = mapping_path or directory / mapping_file.FILE
    mapping = mapping_file.read_mapping(path)
    stamps = _list_files(directory, path)
    paths = list(stamps)
    matches = _match_files(mapping, directory, paths, path)
    runs: list[_LoadRun] = []
    figures: list[ImportedFigure] = []
    stacks: list[StackFile] = []
    memory: list[MemoryFile] = []
    for file, fields, table in matches:
        words = mapping.resolve(table, fields)
        if isinstance(table, StackFiles):
            stacks.append(
                StackFile(
                    path=file,
                    counts=table.counts,
                    process=table.process,
                    **_require(words, path, ("variant", "workload", "threads")),
                )
            )
        elif isinstance(table, MemoryFiles):
            memory.append(
                MemoryFile(
                    path=file,
                    process=table.process,
                    block=words["block"] or 1,
                    **_require(words, path, ("variant", "workload", "threads")),
                )
            )
        elif isinstance(table, TableFiles):
            figures += _complete_figures(figure_tables.read_figures(file), words, mapping, path)
        else:
            runs += _read_runs(words, file, path)
    _check_workloads(runs)
    matched = [file for file, *_ in matches]
    return MappedOutputs(
        figures=[*figures, *(run.figure for run in runs)],
        stacks=stacks,
        memory=memory,
        files={file: stamps[file] for file in matched},
        unmatched=sorted(set(paths) - set(matched)),
        unread=[line for run in runs for line in run.totals.unread],
    )


def _list_files(directory: Path, mapping_path: Path) -> dict[Path, Stamp]:
    paths: dict[Path, Stamp] = {}
    try:
        for path in directory.rglob("*"):
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode) and path != mapping_path:
                raise UsageError(
                    f"{path}: is a link, which is not followed here; put the file in its place"
                )
            if stat.S_ISREG(status.st_mode) and path != mapping_path:
                paths[path] = make_stamp(status)
            if len(paths) > _MOST_FILES:
                raise UsageError(f"{directory}: more than {_MOST_FILES:,} files in it")
    except OSError as error:
        raise UsageError(f"{error.filename or directory}: {error.strerror}") from None
    if not paths:
        raise UsageError(f"{directory}: empty: nothing to import in it")
    return dict(sorted(paths.items()))


def _match_files(
    mapping: MappingFile, directory: Path, paths: list[Path], mapping_path: Path
) -> list[_Match]:
    """Return the files that fit a pattern. UsageError if a pattern fits none, or two fit one."""
    matches: dict[Path, _Match] = {}
    patterns: list[tuple[str, str, Any]] = [
        *([("files", mapping.files, mapping)] if mapping.files is not None else []),
        *((f"stacks.{i}.files", table.files, table) for i, table in enumerate(mapping.stacks)),
        *((f"memory.{i}.files", table.files, table) for i, table in enumerate(mapping.memory)),
        *((f"tables.{i}.files", table.files, table) for i, table in enumerate(mapping.tables)),
    ]
    keys: dict[Path, str] = {}
    for key, text, table in patterns:
        pattern = mapping_file.compile_pattern(text)
        before = len(matches)
        for path in paths:
            match = pattern.fullmatch(path.relative_to(directory).as_posix())
            if match is None:
                continue
            if path in matches:
                raise UsageError(
                    f"{mapping_path}: {keys[path]} and {key} both match "
                    f"{path.relative_to(directory)}; make the patterns differ"
                )
            matches[path], keys[path] = (path, match.groupdict(), table), key
        if len(matches) == before:
            example = paths[0].relative_to(directory)
            raise UsageError(
                f"{mapping_path}: {key}: no file matches {text!r}; the first of {len(paths)} is "
                f"{example}"
            )
    return list(matches.values())


def _require(
    words: Mapping[str, Any], mapping_path: Path, needed: tuple[str, ...]
) -> dict[str, Any]:
    """Return what is needed, and the machine. UsageError if something is not given."""
    if missing := [name for name in needed if not words[name]]:
        raise UsageError(
            f"{mapping_path}: {missing[0]}: neither the pattern nor a key gives it; "
            f"write {{{missing[0]}}} into files, or add a key {missing[0]}"
        )
    return {name: words[name] for name in (*needed, "machine")}


def _complete_figures(
    figures: list[ImportedFigure], words: Mapping[str, Any], mapping: MappingFile, path: Path
) -> list[ImportedFigure]:
    """Return a table's figures with the names that the mapping file gives them, and with its level,
    block and machine, ``words``, where the table has none. UsageError if it has another level.
    """
    variants, workloads, machines = mapping.variants, mapping.workloads, mapping.machines
    for figure in figures:
        if words["threads"] and figure.threads not in (None, words["threads"]):
            raise UsageError(
                f"{figure.place}: thread count mismatch: {path} says {words['threads']}, the table "
                f"says {figure.threads}"
            )
    return [
        replace(
            f,
            variant=variants.get(f.variant, f.variant),
            workload=workloads.get(f.workload, f.workload),
            machine=machines.get(f.machine, f.machine) or words["machine"] or HERE,
            threads=f.threads or words["threads"],
            block=f.block if f.block > 1 else words["block"] or 1,
            relative_to=f.relative_to and variants.get(f.relative_to, f.relative_to),
        )
        for f in figures
    ]


def _read_runs(words: dict[str, Any], path: Path, mapping_path: Path) -> list[_LoadRun]:
    """Return each run in one file. Runs of the same level are repeats, numbered in their order,
    unless the file's block is given.
    """
    with readers.naming(path):
        text = foreign_kinds.read_text(path, _LARGEST_OUTPUT, errors="replace")
    repeats: Counter[int] = Counter()
    runs = []
    for totals in parse_outputs.parse_runs(text, str(path)):
        threads = words["threads"] or totals.threads
        if totals.threads and totals.threads != threads:
            raise UsageError(
                f"{path}:{totals.line}: thread count mismatch: {mapping_path} says {threads}, "
                f"the output says {totals.threads}"
            )
        names = _require(
            {**words, "threads": threads}, mapping_path, ("workload", "variant", "threads")
        )
        level: int = names["threads"]
        repeats[level] += 1
        block = words["block"] or repeats[level]
        figure = _make_figure({**names, "block": block}, totals, path)
        runs.append(_LoadRun(file=path, totals=totals, figure=figure))
    return runs


def _check_workloads(runs: list[_LoadRun]) -> None:
    """Check that all runs of a workload have as many statements in a transaction as its first.
    UsageError, ``FILE:LINE: …``, if not.
    """
    first: dict[str, _LoadRun] = {}
    for run in runs:
        other = first.setdefault(run.figure.workload, run)
        if sysbench_totals.is_another_workload(run.totals, other.totals):
            place = f"line {other.totals.line}"
            if run.file != other.file:
                place = f"{other.file}:{other.totals.line}"
            raise UsageError(
                f"{run.figure.place}: {run.totals.statements:.3g} reads and writes in a "
                f"transaction ({run.totals.writes} writes), {other.totals.statements:.3g} in the "
                f"run of {place} ({other.totals.writes} writes): not the same workload; give them "
                "workloads of their own"
            )


def _make_figure(words: dict[str, Any], totals: Totals, path: Path) -> ImportedFigure:
    return ImportedFigure(
        place=f"{path}:{totals.line}",
        workload=words["workload"],
        threads=words["threads"],
        variant=words["variant"],
        tps=totals.tps,
        machine=words["machine"] or HERE,
        block=words["block"],
        qps=totals.qps,
        p95=totals.p95,
        p99=totals.p99,
        seconds=totals.seconds,
    )
