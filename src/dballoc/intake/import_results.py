"""The whole way in: files to a results directory, all of it or nothing."""

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
from dballoc.intake import csv_figures, sysbench_outputs
from dballoc.intake.assemble_campaign import Assembled, assemble, variant_rows
from dballoc.intake.imported_figure import Figure, check
from dballoc.store.results import Results

# Below the results directory: the files as they were read.
KEPT = "imported"


@dataclass(frozen=True)
class Brought:
    """What came in; ``left``: files of directories that fit no pattern."""

    assembled: Assembled
    figures: int
    left: list[Path]


def bring(
    paths: Sequence[Path], out: Path, baseline: str | None = None, chosen: Path | None = None
) -> Brought:
    """Read CSV files and directories of sysbench's outputs into the new results directory ``out``.

    UsageError in one line for what is wrong with them, with nothing written; Failure if it cannot
    be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: is there already and not empty; choose a new --out")
    figures: list[Figure] = []
    sources: list[tuple[Path, str]] = []
    left: list[Path] = []
    if chosen is not None and not any(path.is_dir() for path in paths):
        raise UsageError(
            f"--mapping {chosen}: it is for directories, and there is none among the paths"
        )
    for path in paths:
        if path.is_dir():
            found, used, others = sysbench_outputs.read(path, chosen)
            keys = [chosen or path / sysbench_outputs.FILE]
            sources += [(p, os.path.join(path.name, os.path.relpath(p, path))) for p in used]
            sources += [(p, os.path.join(path.name, p.name)) for p in keys]
            left += others
        else:
            found = csv_figures.read(path)
            sources.append((path, path.name))
        figures += found
    check(figures)
    _check_sources(sources)
    assembled = assemble(figures, out.name, baseline)
    _write(out, assembled, sources)
    return Brought(assembled, len(figures), left)


def _check_sources(sources: list[tuple[Path, str]]) -> None:
    places: dict[str, Path] = {}
    for path, name in sources:
        if name in places:
            raise UsageError(f"{path}: another file is called so too: {places[name]}; rename one")
        places[name] = path


def _write(out: Path, assembled: Assembled, sources: list[tuple[Path, str]]) -> None:
    """In a directory beside it, which then takes its name."""
    made: Path | None = None
    try:
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.absolute().parent))
        made.chmod(0o755)
        for path, name in sources:
            target = made / KEPT / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        (made / "experiment.toml").write_text(
            experiment_file.dump(assembled.experiment), encoding="utf-8"
        )
        _store(made, assembled, sources)
        if out.exists():
            out.rmdir()
        made.rename(out)
    except OSError as error:
        raise Failure(f"{error.filename or out}: cannot be written: {error.strerror}") from None
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)


def _store(directory: Path, assembled: Assembled, sources: list[tuple[Path, str]]) -> None:
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
        "identity": experiment_file.identity(experiment),
        "experiment": experiment_file.dump(experiment),
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
    results = Results.create(directory, facts, variant_rows(assembled))
    try:
        results.add_trials(assembled.trials)
    finally:
        results.close()
