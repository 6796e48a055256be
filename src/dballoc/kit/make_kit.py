"""Make a kit: one archive with everything that measures an experiment elsewhere."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import dballoc
from dballoc.experiment import experiment_file
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.files.output_file import create_file
from dballoc.host import directories, portable
from dballoc.host.guardian.guardian_client import Custody
from dballoc.kit.choose_parts import KitParts, choose_parts
from dballoc.kit.fill_store import CarriedPart, StoreFiller
from dballoc.kit.licences import find_licences
from dballoc.kit.write_archive import TOP, write_archive

# Increase it when the layout of a kit changes.
FORMAT = 1
_TIME = "SOURCE_DATE_EPOCH"
_STATIC = ("run", "README.md")
# Seconds: 100 MB to unpack; the start of an interpreter.
_UNPACKING, _STARTING = 300, 60
_REMEDY = "build it with make portable, and give it with --portable FILE"

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Kit:
    """A kit that was written. ``size``: of the archive, in bytes; ``sizes``: of its parts there;
    ``unlicensed``: files and entries of the store of which no licence is known.
    """

    size: int
    sizes: dict[str, int]
    parts: tuple[CarriedPart, ...]
    unlicensed: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class KitSource:
    """What a kit is made for. ``text``: the experiment's file as it was given; ``longer``: what a
    long budget makes of it, None where that is the same.
    """

    text: str
    experiment: Experiment
    longer: Experiment | None = None


def make_kit(source: KitSource, python: Path | None, out: Path, progress: Progress) -> Kit:
    """Make the kit of an experiment. ``python``: as for :func:`make_python_tree`; ``out``: the
    archive. Raises UsageError for what this machine lacks or a kit cannot carry; Failure if it
    cannot be written.
    """
    parts = _choose_parts(source, progress)
    seconds = int(os.environ.get(_TIME) or time.time())
    with Custody(adopt=True) as custody:
        scratch = directories.make_scratch(custody.scratch)
        try:
            tree = scratch / TOP
            tree.mkdir()
            progress("its Python")
            make_python_tree(python, tree / "python")
            progress("servers, sysbench and mallocs")
            filler = StoreFiller(tree / "store")
            filler.fill(parts)
            unlicensed = _carry_licences(tree / "licences", filler.parts)
            (tree / "experiment.toml").write_text(source.text)
            for name in _STATIC:
                (tree / name).write_bytes(
                    files("dballoc.kit").joinpath("static", name).read_bytes()
                )
            (tree / "run").chmod(0o755)
            (tree / "kit.json").write_text(describe_kit(source.experiment, filler.parts, seconds))
            progress("the archive")
            with create_file(out) as file:
                sizes = write_archive(tree, file, seconds)
                size = file.tell()
        except OSError as error:
            raise Failure(f"{error.filename or out}: {error.strerror or error}") from None
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return Kit(size=size, sizes=sizes, parts=tuple(filler.parts), unlicensed=tuple(unlicensed))


def _choose_parts(source: KitSource, progress: Progress) -> KitParts:
    """Choose the parts for every budget; where those for a long one are not here, for the file's
    own.
    """
    if source.longer:
        try:
            return choose_parts([source.experiment, source.longer])
        except UsageError as error:
            progress(f"not for long budgets: {error}")
    return choose_parts([source.experiment])


def _carry_licences(place: Path, parts: list[CarriedPart]) -> list[str]:
    licences, unknown = find_licences(path for part in parts for path in part.origins)
    place.mkdir()
    for name, path in sorted(licences.items()):
        shutil.copyfile(path, place / name)
    return unknown


def describe_kit(experiment: Experiment, parts: list[CarriedPart], seconds: int) -> str:
    """Return the text of kit.json. Pure."""
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    kit = {
        "format": FORMAT,
        "dballoc": dballoc.__version__,
        "made": made,
        "experiment": experiment.name,
        "identity": experiment_file.compute_identity(experiment),
        "parts": [
            {name: value for name, value in vars(part).items() if name != "origins"}
            for part in parts
        ],
    }
    return json.dumps(kit, indent=1) + "\n"


def make_python_tree(source: Path | None, place: Path) -> None:
    """Make the kit's own Python with dballoc at ``place``, a path that is not there yet: the tree
    of the portable file (``native/launcher/``). ``source``: that file, or the tree that it was
    unpacked to; None: the one that runs. Raises UsageError if there is none, or if it is of another
    version than we are.
    """
    if source is None and not portable.is_bundled():
        raise UsageError(f"kit make: this dballoc has no Python of its own to carry; {_REMEDY}")
    tree = source or Path(sys.executable).parent.parent
    if tree.is_dir():
        shutil.copytree(tree, place, symlinks=True)
    else:
        _run([tree.absolute(), "--unpack-to", place], tree, _UNPACKING)
    printed = _run([place / "bin/dballoc", "--version"], tree, _STARTING)
    version = re.search(r"^dballoc (\S+)$", printed, re.MULTILINE)
    if version is None or version[1] != dballoc.__version__:
        raise UsageError(f"{tree}: not dballoc {dballoc.__version__}, as this one is; {_REMEDY}")


def _run(words: list[str | Path], tree: Path, seconds: float) -> str:
    try:
        process = subprocess.run(
            [os.fspath(word) for word in words],
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{tree}: does not run: {error}; {_REMEDY}") from None
    if process.returncode != 0:
        last = (process.stderr or process.stdout).strip().splitlines() or ["no message"]
        raise UsageError(f"{tree}: does not run: {last[-1]}; {_REMEDY}")
    return process.stdout
