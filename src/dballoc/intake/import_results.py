"""Import files of results into a new results directory: all of them or nothing."""

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import dballoc
from dballoc.experiment import experiment_file
from dballoc.experiment.designs import Design
from dballoc.ground import readers
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.files.foreign_file import Stamp, make_stamp, open_foreign_file
from dballoc.ground.files.output_directory import OutputDirectory
from dballoc.intake import figure_tables, output_mapping, stack_profiles
from dballoc.intake import mapping_file as mapping_files
from dballoc.intake.assemble_campaign import (
    LONGEST,
    Assembled,
    assemble_campaign,
    has_other_letters,
    list_variant_rows,
)
from dballoc.intake.attach_memory import attach_memory
from dballoc.intake.imported_figure import ImportedFigure, check_figures, choose_machine
from dballoc.intake.output_mapping import MemoryFile, StackFile
from dballoc.profile.formats import profile_file
from dballoc.profile.model import Profile
from dballoc.store.facts import (
    IMPORTED_PROFILES,
    DuetFacts,
    Environment,
    Facts,
    ImportedFacts,
    ImportedFile,
    MachineTrials,
    PrivateBytes,
    ProfilePlace,
)
from dballoc.store.results import Results

# Below the results directory: copies of the files.
KEPT = "imported"
_PIECE = readers.MIB

# Files of call stacks, and the bytes of all together.
_MOST_PROFILES, _MOST_STACK_BYTES = 1000, 512 * readers.MIB


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What was imported. ``figures``, ``profiles``, ``series``: how many figures, profiles of call
    stacks, and series of memory; ``unmatched``: files in directories that do not fit a pattern;
    ``notes``: a line for whatever was left out, or called by another name.
    """

    assembled: Assembled
    figures: int
    profiles: int
    series: int
    unmatched: list[Path]
    notes: list[str]


@dataclass(frozen=True)
class _CopiedFile:
    """A file, and the name of its copy. ``stamp``: as it was before it was read."""

    path: Path
    name: str
    stamp: Stamp


@dataclass(kw_only=True)
class _Gathered:
    """What the paths hold. ``sources``: each file, as it was before it was read."""

    figures: list[ImportedFigure] = field(default_factory=list)
    stacks: list[StackFile] = field(default_factory=list)
    memory: list[MemoryFile] = field(default_factory=list)
    unmatched: list[Path] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    sources: list[_CopiedFile] = field(default_factory=list)


@dataclass(frozen=True)
class _StoredProfile:
    """A profile, and what it is of."""

    profile: Profile
    place: ProfilePlace


def import_results(
    paths: Sequence[Path],
    out: Path,
    baseline: str | None = None,
    mapping_file: Path | None = None,
    published: str | None = None,
) -> Imported:
    """Read tables of figures, and directories of outputs, tables, call stacks and readings, into
    the new results directory ``out``. ``published``: the published figures that they repeat.

    UsageError in one line if something is wrong with them, Failure if ``out`` cannot be written;
    nothing is written then.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: already exists and is not empty; choose a new --out")
    if mapping_file is not None and not any(path.is_dir() for path in paths):
        raise UsageError(
            f"--mapping {mapping_file}: is for directories, and none of the paths is a directory"
        )
    gathered = _gather(paths, mapping_file)
    check_figures(gathered.figures)
    _check_sources(gathered.sources)
    if not gathered.figures:
        raise UsageError(
            f"{paths[0]}: no transactions per second in it; call stacks and memory are imported "
            "together with the figures that they belong to"
        )
    figures = attach_memory(gathered.figures, gathered.memory)
    assembled = assemble_campaign(figures, out.name, baseline, published)
    profiles = _read_profiles(gathered.stacks, figures, assembled)
    _write_directory(out, assembled, gathered.sources, profiles)
    return Imported(
        assembled=assembled,
        figures=sum(figure.variant != figure.relative_to for figure in figures),
        profiles=len(profiles),
        series=len(gathered.memory),
        unmatched=gathered.unmatched,
        notes=[*gathered.unread, *_list_new_names(assembled), *_list_unstated(assembled)],
    )


def _list_unstated(assembled: Assembled) -> list[str]:
    """Return a line on what the files leave open."""
    if assembled.clients_stated:
        return []
    return [
        "the files do not say under how many clients; in a directory, threads in its import.toml "
        "says it, see docs/import.md"
    ]


def _list_new_names(assembled: Assembled) -> list[str]:
    """Return a line for each name that does not tell what the files call it, or not all of it."""
    return [
        f"the {kind} {readers.shown(word)} is called {name} here; [{kind}s] in import.toml gives "
        "another name"
        for kind, names in (("variant", assembled.variants), ("workload", assembled.workloads))
        for word, name in names.items()
        if has_other_letters(word) or len(word) > LONGEST
    ]


def _gather(paths: Sequence[Path], mapping_file: Path | None) -> _Gathered:
    gathered = _Gathered()
    for path in paths:
        if path.is_dir():
            mapping = mapping_file or path / mapping_files.FILE
            stamp = _read_stamp(mapping)
            outputs = output_mapping.read_outputs(path, mapping_file)
            gathered.figures += outputs.figures
            gathered.stacks += outputs.stacks
            gathered.memory += outputs.memory
            gathered.unmatched += outputs.unmatched
            gathered.unread += outputs.unread
            gathered.sources += [
                _CopiedFile(file, os.path.join(path.name, os.path.relpath(file, path)), before)
                for file, before in outputs.files.items()
            ]
            gathered.sources.append(
                _CopiedFile(mapping, os.path.join(path.name, mapping.name), stamp)
            )
        else:
            stamp = _read_stamp(path)
            gathered.figures += figure_tables.read_figures(path)
            gathered.sources.append(_CopiedFile(path, path.name, stamp))
    return gathered


def _read_stamp(path: Path) -> Stamp:
    """Return a file's stamp; an empty one where there is no file, which its reader will say."""
    try:
        return make_stamp(path.stat())
    except (OSError, ValueError):
        return 0, 0, 0, 0


def _read_profiles(
    stacks: Sequence[StackFile], figures: Sequence[ImportedFigure], assembled: Assembled
) -> list[_StoredProfile]:
    """Read the files of call stacks, each of another variant, level or count. UsageError in one
    line.
    """
    size = 0
    for file in stacks:
        with readers.naming(file.path):
            size += file.path.stat().st_size
    if len(stacks) > _MOST_PROFILES or size > _MOST_STACK_BYTES:
        raise UsageError(
            f"{stacks[0].path.parent}: {len(stacks)} files of call stacks, "
            f"{size // readers.MIB} MiB; import at most {_MOST_PROFILES:,} and "
            f"{_MOST_STACK_BYTES // readers.MIB} MiB at once"
        )
    unique: dict[ProfilePlace, Path] = {}
    profiles = []
    for file in stacks:
        machine = choose_machine(figures, file.variant, file.workload, file.machine, str(file.path))
        place = ProfilePlace(
            machine=machine,
            variant=assembled.variants[file.variant],
            workload=assembled.workloads[file.workload],
            threads=file.threads,
            counts=file.counts,
        )
        first = unique.setdefault(place, file.path)
        if first != file.path:
            raise UsageError(
                f"{file.path}: {file.variant}, {file.workload} at level {file.threads}: {first} "
                f'has its stacks of counts = "{file.counts}" already'
            )
        profiles.append(_StoredProfile(stack_profiles.read_profile(file), place))
    return profiles


def _check_sources(sources: list[_CopiedFile]) -> None:
    places: dict[str, Path] = {}
    for source in sources:
        if source.name in places:
            raise UsageError(f"{source.path}: {places[source.name]} has the same name; rename one")
        places[source.name] = source.path


def _write_directory(
    out: Path,
    assembled: Assembled,
    sources: list[_CopiedFile],
    profiles: Sequence[_StoredProfile],
) -> None:
    """Write to a temporary directory beside ``out``, then rename it to ``out``."""
    try:
        with OutputDirectory.create(out) as directory:
            with directory.open_subdirectory(KEPT) as kept:
                hashes = {each.name: _copy_source(each, kept, each.name) for each in sources}
            directory.write(
                "experiment.toml", experiment_file.format_experiment(assembled.experiment)
            )
            if profiles:
                _write_profiles(directory, profiles)
            _write_database(
                directory.path, assembled, hashes, [stored.place for stored in profiles]
            )
    except OSError as error:
        raise Failure(f"{error.filename or out}: cannot be written: {error.strerror}") from None


def _write_profiles(directory: OutputDirectory, profiles: Sequence[_StoredProfile]) -> None:
    above, pattern = os.path.split(IMPORTED_PROFILES)
    with directory.open_subdirectory(above) as below:
        for number, stored in enumerate(profiles, 1):
            below.write(pattern.format(number), profile_file.pack_profile(stored.profile))


def _copy_source(source: _CopiedFile, kept: OutputDirectory, name: str) -> str:
    """Copy a file; its name may have directories before it. Returns its SHA-256. Failure if it is
    not as it was when it was read.
    """
    above, _, rest = name.partition("/")
    if rest:
        with kept.open_subdirectory(above) as below:
            return _copy_source(source, below, rest)
    digest = hashlib.sha256()
    with open_foreign_file(source.path) as file, kept.create_file(name) as copy:
        while piece := file.read(_PIECE):
            digest.update(piece)
            copy.write(piece)
        if make_stamp(os.fstat(file.fileno())) != source.stamp:
            raise Failure(f"{source.path}: it changed while it was imported; import it again")
    return digest.hexdigest()


def _write_database(
    directory: Path,
    assembled: Assembled,
    hashes: dict[str, str],
    profiles: list[ProfilePlace],
) -> None:
    experiment = assembled.experiment
    facts = Facts(
        dballoc=dballoc.__version__,
        identity=experiment_file.compute_identity(experiment),
        experiment=experiment_file.format_experiment(experiment),
        seed=experiment.seed,
        planned_blocks={Design.SOLO: experiment.blocks or 0},
        started=time.time(),
        environment=Environment(),
        sysbench="",
        designs=(Design.SOLO,),
        duet=DuetFacts(),
        ending="planned",
        imported=ImportedFacts(
            files=tuple(ImportedFile(name=n, sha256=value) for n, value in hashes.items()),
            machines=tuple(MachineTrials(name=n, trials=t) for n, t in assembled.machines),
            clients_stated=assembled.clients_stated,
            relative_to=assembled.relative_to,
            private=tuple(PrivateBytes(trial=n, peak=p) for n, p in assembled.private.items()),
            profiles=tuple(profiles),
        ),
    )
    results = Results.create(directory, facts, list_variant_rows(assembled))
    try:
        results.add_trials((slot, [record]) for slot, record in assembled.trials)
    finally:
        results.close()
