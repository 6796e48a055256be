"""Import files of results into a new results directory: all of them or nothing."""

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import dballoc
from dballoc.errors import Failure, UsageError
from dballoc.experiment import experiment_file
from dballoc.intake import csv_figures, output_mapping
from dballoc.intake.assemble_campaign import Assembled, assemble_campaign, list_variant_rows
from dballoc.intake.imported_figure import Figure, check_figures
from dballoc.store.results import Results

# Below the results directory: copies of the files.
KEPT = "imported"


@dataclass(frozen=True)
class Imported:
    """What was imported. ``figures``: how many; ``unmatched``: files in directories that do not fit
    the pattern.
    """

    assembled: Assembled
    figures: int
    unmatched: list[Path]


def import_results(
    paths: Sequence[Path],
    out: Path,
    baseline: str | None = None,
    mapping_file: Path | None = None,
) -> Imported:
    """Read CSV files and directories of sysbench's outputs into the new results directory ``out``.

    UsageError in one line if something is wrong with them, Failure if ``out`` cannot be written;
    nothing is written then.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: already exists and is not empty; choose a new --out")
    if mapping_file is not None and not any(path.is_dir() for path in paths):
        raise UsageError(
            f"--mapping {mapping_file}: is for directories, and none of the paths is a directory"
        )
    figures: list[Figure] = []
    sources: list[tuple[Path, str]] = []
    unmatched: list[Path] = []
    for path in paths:
        if path.is_dir():
            outputs = output_mapping.read_outputs(path, mapping_file)
            figures += outputs.figures
            mapping = mapping_file or path / output_mapping.FILE
            sources += [
                (p, os.path.join(path.name, os.path.relpath(p, path))) for p in outputs.files
            ]
            sources.append((mapping, os.path.join(path.name, mapping.name)))
            unmatched += outputs.unmatched
        else:
            figures += csv_figures.read_figures(path)
            sources.append((path, path.name))
    check_figures(figures)
    _check_sources(sources)
    assembled = assemble_campaign(figures, out.name, baseline)
    _write_directory(out, assembled, sources)
    return Imported(assembled, len(figures), unmatched)


def _check_sources(sources: list[tuple[Path, str]]) -> None:
    places: dict[str, Path] = {}
    for path, name in sources:
        if name in places:
            raise UsageError(f"{path}: {places[name]} has the same name; rename one")
        places[name] = path


def _write_directory(out: Path, assembled: Assembled, sources: list[tuple[Path, str]]) -> None:
    """Write to a temporary directory beside ``out``, then rename it to ``out``."""
    partial: Path | None = None
    try:
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.absolute().parent))
        partial.chmod(0o755)
        for path, name in sources:
            target = partial / KEPT / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        (partial / "experiment.toml").write_text(
            experiment_file.format_experiment(assembled.experiment), encoding="utf-8"
        )
        _write_database(partial, assembled, sources)
        if out.exists():
            out.rmdir()
        partial.rename(out)
    except OSError as error:
        raise Failure(f"{error.filename or out}: cannot be written: {error.strerror}") from None
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)


def _write_database(directory: Path, assembled: Assembled, sources: list[tuple[Path, str]]) -> None:
    experiment = assembled.experiment
    imported = {
        "files": [
            {"name": name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
            for path, name in sources
        ],
        "machines": [{"name": name, "trials": trials} for name, trials in assembled.machines],
    }
    facts = {
        "dballoc": dballoc.__version__,
        "identity": experiment_file.compute_identity(experiment),
        "experiment": experiment_file.format_experiment(experiment),
        "seed": str(experiment.seed),
        "planned_blocks": json.dumps({"solo": experiment.blocks}),
        "started": str(time.time()),
        "environment": "{}",
        "sysbench": "",
        "server_user": "",
        "designs": "solo",
        "duet": "{}",
        "ending": "planned",
        "imported": json.dumps(imported),
    }
    results = Results.create(directory, facts, list_variant_rows(assembled))
    try:
        results.add_trials(assembled.trials)
    finally:
        results.close()
